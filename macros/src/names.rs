//! Finds the known name that was probably meant by an unknown one.

/// Returns the name among `known` that was probably meant by `written`.
pub(crate) fn nearest<'a>(
    written: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let rated = known
        .into_iter()
        .map(|known| (similarity(written, known), known));
    rated
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(similarity, _)| *similarity >= 0.5)
        .map(|(_, known)| known)
}

/// The similarity of two names, from 0 to 1. A name with a prefix or a suffix, for example `order_id` for `id`, is more
/// similar than most others. It is less similar than a name with one or two wrong letters.
fn similarity(written: &str, known: &str) -> f64 {
    const EXTENDED: f64 = 0.7;
    let (written, known) = (written.to_lowercase(), known.to_lowercase());
    let (long, short) = if written.len() < known.len() {
        (&known, &written)
    } else {
        (&written, &known)
    };
    let similarity = strsim::normalized_damerau_levenshtein(&written, &known);
    let extends = long.starts_with(&**short) || long.ends_with(&**short);
    if extends && short.chars().count() > 1 {
        similarity.max(EXTENDED)
    } else {
        similarity
    }
}

/// The names in backticks, as a part of a message.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<_> = names.into_iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_slip_or_an_addition_is_near() {
        for (written, known, expected) in [
            ("order_id", &["id"][..], "id"),
            ("orderId", &["id", "name"], "id"),
            ("Id", &["id"], "id"),
            ("ordre", &["id", "order"], "order"),
            ("order", &["order_ref", "id"], "order_ref"),
            ("tenant_ids", &["tenant", "tenant_id"], "tenant_id"),
            ("größe", &["grösse"], "grösse"),
        ] {
            assert_eq!(
                nearest(written, known.iter().copied()),
                Some(expected),
                "{written}"
            );
        }
    }

    #[test]
    fn a_name_of_its_own_is_near_to_none() {
        for (written, known) in [
            ("tenant", &["id"][..]),
            ("width", &["id"]),
            ("anything", &["a"]),
            ("id", &[]),
        ] {
            assert_eq!(nearest(written, known.iter().copied()), None, "{written}");
        }
    }
}
