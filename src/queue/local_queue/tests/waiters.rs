//! The waiters behave like a list, although none of them is found by walking through the others.

use proptest::prelude::*;

use super::events::wish;
use super::story::millis;
use crate::base::id::Owner;
use crate::base::option_types::Mode;
use crate::queue::local_queue::Waiters;
use crate::queue::waiter::Waiter;
use crate::store::AcquireRequest;

fn waiter(asks_once: bool) -> Waiter {
    let request = AcquireRequest {
        hold: Owner::new().next_hold(),
        ttl: millis(1),
        entry: None,
    };
    Waiter::new(wish(request, Mode::Exclusive, asks_once, false))
}

proptest! {
    #[test]
    fn they_are_a_list(steps in prop::collection::vec(any::<(bool, bool, usize)>(), 0..100)) {
        let (mut waiters, mut list) = (Waiters::default(), Vec::<Waiter>::new());
        for (joins, asks_once, at) in steps {
            if joins || list.is_empty() {
                let waiter = waiter(asks_once);
                let is_first = list.is_empty();
                list.push(waiter.clone());
                prop_assert_eq!(waiters.add(waiter), is_first);
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
