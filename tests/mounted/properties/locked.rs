//! The properties of every text that may be passed to the attribute. The tests below create such texts. The targets in
//! `fuzz/` use the same functions, and search further.
//!
//! Mounted by `tests/attribute.rs`, and by `fuzz/src/lib.rs`.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{File, Item, parse_quote};

use crate::template::Template;
use crate::{duration, expand};

/// A template is its format string with the expressions inserted. A flaw has a position in the text.
pub(crate) fn template(text: &str) {
    match Template::parse(text) {
        Ok(template) => {
            let mut cut = String::new();
            let mut at = 0;
            for expression in &template.expressions {
                let range = expression.range.clone();
                assert_eq!(text[range.clone()].trim(), expression.code, "{text:?}");
                assert!(!expression.code.is_empty(), "{text:?}");
                cut.push_str(&text[at..range.start]);
                at = range.end;
            }
            cut.push_str(&text[at..]);
            assert_eq!(template.format, cut, "{text:?}");
            let placeholders = placeholders(&template.format);
            assert_eq!(placeholders, Some(template.expressions.len()), "{text:?}");
        }
        Err(flaw) => {
            let place = text.get(flaw.range.clone());
            let is_place = place.is_some_and(|place| !place.is_empty());
            assert!(is_place && !flaw.message.is_empty(), "{text:?}: {flaw:?}");
        }
    }
}

/// The number of arguments that `format!` takes for a format string. `None` if it is not of the plain form.
fn placeholders(format: &str) -> Option<usize> {
    let text = format.replace("{{", "").replace("}}", "");
    let mut pieces = text.split('{');
    let before = pieces.next()?;
    let specs = pieces.map(|piece| piece.split_once('}'));
    let plain = specs.map(|parts| {
        let (spec, after) = parts?;
        let plain = spec.is_empty() || spec.starts_with(':');
        let names_no_other = !spec.contains(['$', '{']) && !spec.contains(".*");
        (plain && names_no_other && !after.contains('}')).then_some(())
    });
    let count = plain.collect::<Option<Vec<_>>>()?.len();
    (!before.contains('}')).then_some(count)
}

/// A text is a duration if and only if it consists of pairs of digits and a unit. Each unit must be smaller than the
/// one before. The sum in milliseconds must fit into a `u64`.
pub(crate) fn duration(text: &str) {
    const UNITS: [(&str, u128); 5] = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1_000),
        ("ms", 1),
    ];
    let mut rest = text;
    let mut sum = Some(0u128);
    for (unit, millis) in UNITS {
        let after = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let digits = &rest[..rest.len() - after.len()];
        let follows = after.strip_prefix(unit);
        // `5ms` is not `5m` with an `s` after it.
        let follows = follows.filter(|after| !after.starts_with('s'));
        if let Some(after) = follows.filter(|_| !digits.is_empty()) {
            // A number of twenty digits fits easily, and a longer one is too long.
            let digits = digits.trim_start_matches('0');
            let number = match digits.len() {
                0 => Some(0),
                1..=20 => digits.parse::<u128>().ok(),
                _ => None,
            };
            sum = sum.zip(number).map(|(sum, number)| sum + number * millis);
            rest = after;
        }
    }
    let is_read = rest.is_empty() && !text.is_empty();
    let expected = sum
        .filter(|_| is_read)
        .and_then(|sum| u64::try_from(sum).ok());
    match duration::parse(text) {
        Ok(read) => assert_eq!(expected.map(u128::from), Some(read.as_millis()), "{text:?}"),
        Err(message) => {
            assert_eq!(expected, None, "{text:?}");
            assert!(message.contains(&format!("`{text}`")), "{message}");
        }
    }
}

/// Whatever the arguments are, the output is one function with the signature of the one below the attribute. It runs
/// under the lock, or unlocked together with an error. It sets no lint level, because a crate may forbid that.
pub(crate) fn arguments(text: &str) {
    let Ok(arguments) = text.parse::<TokenStream>() else {
        return;
    };
    let items: [Item; 3] = [
        parse_quote! {
            async fn ship(id: u64, Order { name, .. }: &Order, _by: u8) -> Result<u64, LockError> {
                Ok(id)
            }
        },
        parse_quote! {
            async fn ship(&mut self, id: u64) -> anyhow::Result<impl Display> {
                Ok(id)
            }
        },
        parse_quote! {
            fn ship<'a>(id: u64) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>> {
                Box::pin(async move { Ok(()) })
            }
        },
    ];
    for item in &items {
        let expanded = expand::locked(arguments.clone(), item.to_token_stream());
        let shown = expanded.to_string();
        let sets_level = ["allow", "expect", "warn", "deny"].map(|level| format!("# [{level}"));
        let sets_level = sets_level.iter().any(|level| shown.contains(level));
        assert!(!sets_level, "{text}: {shown}");
        let file = syn::parse2::<File>(expanded);
        let items = file
            .unwrap_or_else(|error| panic!("{text}: {error} in {shown}"))
            .items;
        let mut signatures = items.iter().filter_map(signature);
        assert_eq!(signatures.next(), signature(item), "{text}: {shown}");
        assert_eq!(signatures.next(), None, "{text}: {shown}");
        let has_error = items.iter().any(|item| matches!(item, Item::Macro(_)));
        // The crate may have another name.
        let is_locked = shown.contains(":: LockRequest :: run (");
        assert!(has_error != is_locked, "{text}: {shown}");
    }
}

fn signature(item: &Item) -> Option<String> {
    match item {
        Item::Fn(function) => Some(function.sig.to_token_stream().to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// A part of a template: its text, its form in the format string, and its expression.
    type Part = (String, String, Option<&'static str>);

    fn part() -> impl Strategy<Value = Part> {
        const CODES: [&str; 8] = [
            "id",
            "self.tenant",
            "a::b::<C>(d)",
            "S { x: 1 }.x",
            "m[\"}\"]",
            "m[r#\"\"}\"#]",
            "m['}']",
            "größe",
        ];
        let plain = "[a-z:é ]{1,6}".prop_map(|text| (text.clone(), text, None));
        let brace = prop_oneof!["\\{\\{", "\\}\\}"].prop_map(|text| (text.clone(), text, None));
        let spec = "(:(>?[0-9]{1,2})?[?x]?)?";
        let code = prop::sample::select(&CODES[..]);
        let placeholder = (code, spec, " ?").prop_map(|(code, spec, space)| {
            let written = format!("{{{space}{code}{space}{spec}}}");
            (written, format!("{{{spec}}}"), Some(code))
        });
        prop_oneof![plain, brace, placeholder]
    }

    fn argument() -> impl Strategy<Value = String> {
        let name = "(key|locks|ttl|wait|max_hold|on_lost|crate|r#key|tll|timeout|self)";
        let value = prop_oneof![
            "\"[0-9]{1,3}(ms|s|m|h|d|)\"",
            "\"(none|forever|\\{id\\}|\\{id:w\\$\\})\"",
            "(self\\.locks|company::locks|f\\(x\\)|\\|x\\| x|\\{ 1 \\}|10|a = b|let x = y|\\.\\.|return)",
        ];
        let template =
            "\"[a-z:]{0,3}\\{(id|self\\.x|name|x = 1|f\\(id\\)|order_id|SHARD)(:08)?\\}\"";
        let named = (name, value).prop_map(|(name, value)| format!("{name} = {value}"));
        prop_oneof![template, named, "\\PC{0,8}"]
    }

    proptest! {
        #[test]
        fn a_template_is_parsed_into_its_parts(
            parts in prop::collection::vec(part(), 0..6),
        ) {
            let text: String = parts.iter().map(|(text, ..)| &**text).collect();
            template(&text);
            let format: String = parts.iter().map(|(_, format, _)| &**format).collect();
            if let Ok(template) = Template::parse(&text) {
                let codes = template.expressions.iter().map(|expression| expression.code);
                prop_assert!(codes.eq(parts.iter().filter_map(|(.., code)| *code)), "{text}");
                prop_assert_eq!(template.format, format);
            } else {
                prop_assert!(false, "{} was refused", text);
            }
        }

        #[test]
        fn a_template_is_its_format_string_and_its_expressions(
            text in prop_oneof!["([{}:'\"\\\\r#()\\[\\]a$.* ü]){0,14}", "\\PC{0,30}"],
        ) {
            template(&text);
            template(&format!("{{{text}}}"));
        }

        #[test]
        fn a_duration_is_digits_and_units(
            text in prop_oneof![
                "[0-9]{0,22}(ms|s|m|h|d)",
                "([0-9]{1,3}d)?([0-9]{1,3}h)?([0-9]{1,3}m)?([0-9]{1,18}s)?([0-9]{1,20}ms)?",
                "([0-9]{1,3}(ms|s|m|h|d)){2,3}",
                "[0-9+ .-]{0,4}(ms|s|m|h|d|M|S|us|µs|)[0-9s ]{0,2}",
                "\\PC{0,10}",
            ],
        ) {
            duration(&text);
        }

        #[test]
        fn the_function_is_kept_whatever_the_arguments_are(
            arguments in prop::collection::vec(argument(), 0..4),
        ) {
            super::arguments(&arguments.join(", "));
        }
    }

    fn each_of(target: &str, read: fn(&str)) {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = here.join("../fuzz/corpus").join(target);
        for file in fs::read_dir(folder).expect("the corpus, which the repository has") {
            if let Ok(text) = fs::read_to_string(file.unwrap().path()) {
                read(&text);
            }
        }
    }

    #[test]
    fn the_corpora_of_the_fuzzers_hold() {
        each_of("template", template);
        each_of("arguments", arguments);
        each_of("arguments", duration);
    }
}
