//! Ids as they are written and read.

use super::*;

#[test]
fn a_hold_id_survives_the_round_trip_through_its_field() {
    let owner = Owner::new();
    let (first, second) = (owner.next_hold(), owner.next_hold());
    assert_ne!(first, second);
    assert_eq!(first.to_string().parse(), Ok(first));
    assert_eq!(OwnerId::of_field(&second.to_string()), Some(owner.id()));
}

#[test]
fn the_field_keeps_the_compact_encoding_of_the_hash() {
    let field = HoldId {
        owner: Owner::new().id(),
        number: u64::MAX,
    }
    .to_string();
    assert!(field.len() < 64, "{field} has {} bytes", field.len());
}

#[test]
fn what_outlives_a_hold_names_its_owner_and_is_no_hold() {
    let hold = Owner::new().next_hold();
    let kept = hold.kept();
    assert_eq!(OwnerId::of_field(&kept), Some(hold.owner()));
    assert_eq!(kept.parse::<HoldId>(), Err(ParseHoldIdError(())));
}

#[test]
fn other_texts_are_no_hold_ids() {
    for text in [
        "",
        "x",
        "x:1",
        ":",
        "4f0e1d2c-0000-4000-8000-000000000000",
        "4f0e:1",
        "4f0e1d2c-0000-4000-8000-000000000000:+1",
        "4f0e1d2c-0000-4000-8000-000000000000:01",
        "4f0e1d2c-0000-4000-8000-000000000000: 1",
        "4F0E1D2C-0000-4000-8000-000000000000:1",
        "4f0e1d2c000040008000000000000000:1",
    ] {
        assert_eq!(text.parse::<HoldId>(), Err(ParseHoldIdError(())), "{text}");
    }
}
