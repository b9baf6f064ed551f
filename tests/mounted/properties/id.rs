//! The property of every text that is read as an id.
//!
//! Mounted by `src/base/id.rs`.

use super::{HoldId, OwnerId};

/// A text is a hold id if and only if it has the form of one, and it is printed as it was read.
pub(crate) fn hold_id(text: &str) {
    let parsed = text.parse::<HoldId>();
    assert_eq!(parsed.is_ok(), is_spelt(text), "{text:?}: {parsed:?}");
    if let Ok(hold) = parsed {
        assert_eq!(hold.to_string(), text);
        assert_eq!(OwnerId::parse_field(text), Some(hold.owner()));
        let mut written = Vec::new();
        assert!(hold.write_to(&mut written).is_ok());
        assert_eq!(written, text.as_bytes());
    }
}

/// `<uuid>:<integer>`: lower-case hexadecimal digits with hyphens, and a `u64` without leading zeros.
fn is_spelt(text: &str) -> bool {
    let Some((owner, number)) = text.split_once(':') else {
        return false;
    };
    let is_uuid = owner.len() == 36
        && owner.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        });
    const GREATEST: &str = "18446744073709551615";
    let is_digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_shortest = number == "0" || !number.starts_with('0');
    let fits =
        number.len() < GREATEST.len() || number.len() == GREATEST.len() && number <= GREATEST;
    is_uuid && is_digits && is_shortest && fits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    prop_compose! {
        fn any_hold()(owner: u128, number: u64) -> HoldId {
            let owner = OwnerId(Uuid::from_u128(owner));
            HoldId { owner, number }
        }
    }

    /// A hold id with one character replaced.
    fn misspelt() -> impl Strategy<Value = String> {
        (any_hold(), 0usize..57, "[0-9a-fA-F:+ {}-]").prop_map(|(hold, at, letter)| {
            let mut text = hold.to_string();
            let at = at % text.len();
            text.replace_range(at..=at, &letter);
            text
        })
    }

    proptest! {
        #[test]
        fn every_hold_id_is_read_as_it_prints(hold in any_hold()) {
            prop_assert_eq!(hold.to_string().parse(), Ok(hold));
            // A hash with a longer field has no compact encoding.
            prop_assert!(hold.to_string().len() < 64);
            hold_id(&hold.to_string());
        }

        #[test]
        fn a_text_is_a_hold_id_exactly_if_it_is_spelt_as_one(
            text in prop_oneof![
                misspelt(),
                "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9+]{0,21}",
                "\\PC{0,60}",
            ],
        ) {
            hold_id(&text);
        }
    }
}
