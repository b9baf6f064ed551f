//! The waiters behave like a list, although none of them is found by walking through the others.

use proptest::prelude::*;

use super::events::wish;
use super::story::millis;
use crate::base::id::Owner;
use crate::base::option_types::Mode;
use crate::queue::local_queue::Waiters;
use crate::queue::waiter::Waiter;
use crate::store::AcquireRequest;

fn waiter(is_preferred: bool, asks_once: bool) -> Waiter {
    let request = AcquireRequest {
        hold: Owner::new().next_hold(),
        ttl: millis(1),
        entry: None,
    };
    let mut wish = wish(request, Mode::Exclusive, asks_once, false);
    wish.is_preferred = is_preferred;
    Waiter::new(wish)
}

proptest! {
    /// It behaves like a list into which the preferred waiters are inserted one after the other.
    #[test]
    fn they_are_a_list(steps in prop::collection::vec(any::<(bool, bool, bool, usize)>(), 0..100)) {
        let (mut waiters, mut list) = (Waiters::default(), Vec::<Waiter>::new());
        for (joins, is_preferred, asks_once, at) in steps {
            if joins || list.is_empty() {
                let waiter = waiter(is_preferred, asks_once);
                let behind = |other: &Waiter| is_preferred && !other.is_preferred;
                let at = list.iter().position(behind).unwrap_or(list.len());
                list.insert(at, waiter.clone());
                prop_assert_eq!(waiters.add(waiter), at == 0);
            } else {
                let at = at % list.len();
                let gone = list.remove(at);
                prop_assert_eq!(waiters.remove(gone.request.hold), Some((gone, at == 0)));
            }
            prop_assert!(waiters.iter().eq(&list));
            prop_assert!(waiters.add_up());
            prop_assert_eq!(waiters.first(), list.first());
            prop_assert_eq!(waiters.len(), list.len());
        }
    }
}
