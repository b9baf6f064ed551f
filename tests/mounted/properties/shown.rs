//! No message contains a control character, whatever text of others it quotes.
//!
//! Mounted by `src/base/sanitize.rs`.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::{char, collection};

use crate::base::error::{Blocked, FailureClass, LockError, LostReason, StoreError};
use crate::base::id::Owner;
use crate::base::process::{Holder, Process};

/// One error of each kind, with the text wherever others may have written one.
fn errors(text: &str) -> Vec<LockError> {
    let (key, within) = (text.to_owned(), Duration::from_secs(1));
    let source = StoreError::new(
        "acquire",
        &Arc::from(text),
        FailureClass::OutcomeUnknown,
        text,
    );
    let holder = Holder {
        hold_id: key.clone(),
        owner: None,
        process: None,
        is_here: false,
        depth: 1,
        held_for: None,
        remaining: None,
    };
    let process = Process {
        name: key.clone(),
        host: key.clone(),
        ..Process::this()
    };
    let of_process = Holder {
        process: Some(process.clone()),
        ..holder.clone()
    };
    let blocked = Blocked {
        owner: Owner::new().id().to_string(),
        process: Some(process),
        holds: key.clone(),
        waits_for: key.clone(),
    };
    let busy = |holder: Holder| LockError::Busy {
        key: text.to_owned(),
        waited: within,
        holder: Some(Box::new(holder)),
        others: 1,
    };
    let reason = LostReason::Deleted;
    vec![
        busy(holder),
        busy(of_process),
        LockError::busy(text),
        LockError::Unavailable {
            source: source.clone(),
        },
        LockError::Lost {
            key: key.clone(),
            reason,
        },
        LockError::Deadlock {
            key: key.clone(),
            cycle: vec![blocked],
        },
        LockError::config(text),
        LockError::misuse(text, format!("invalid key `{text}`")),
        LockError::upgrade(text),
        LockError::Misuse {
            key: Some(key.clone()),
            what: key,
            source: Some(source),
        },
    ]
}

/// The messages of an error and of its sources.
fn messages(error: &LockError) -> Vec<String> {
    let mut messages = vec![error.to_string()];
    let mut source = error.source();
    while let Some(error) = source {
        messages.push(error.to_string());
        source = error.source();
    }
    messages
}

fn gives_orders(message: &str) -> bool {
    message
        .contains(|letter: char| letter.is_control() || ('\u{2028}'..='\u{202e}').contains(&letter))
}

/// Texts in which such characters are frequent.
fn any_text() -> impl Strategy<Value = String> {
    let letter = prop_oneof![
        any::<char>(),
        char::range('\0', '\u{1f}'),
        char::range('\u{7f}', '\u{9f}'),
        char::range('\u{2028}', '\u{202e}'),
    ];
    collection::vec(letter, 0..20).prop_map(String::from_iter)
}

proptest! {
    #[test]
    fn no_error_contains_a_control_character(text in any_text()) {
        for error in errors(&text) {
            for message in messages(&error) {
                prop_assert!(!gives_orders(&message), "{error:?}: {message:?}");
            }
        }
    }

    #[test]
    fn a_printable_text_is_shown_as_it_is(text in "[a-z0-9:{}äß注🔒 -]{1,20}") {
        for error in errors(&text) {
            let shown = messages(&error).iter().any(|message| message.contains(&text));
            prop_assert!(shown, "{error:?}");
            prop_assert_eq!(super::Sanitized(&text).to_string(), text.clone());
        }
    }
}
