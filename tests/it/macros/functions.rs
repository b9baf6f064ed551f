//! `#[locked]` on every form of free function, without a lint that the expansion causes.
#![deny(warnings, clippy::all)]
#![warn(clippy::pedantic)]

use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use reentry::{LockError, Locks, held, locked};

type Outcome<T = bool> = Result<T, LockError>;

fn holds(key: impl AsRef<str>) -> bool {
    held(key).is_some()
}

#[locked("generic:{value}:{other}")]
async fn generic<T, const N: usize>(
    value: T,
    other: impl Display,
    mut list: [u8; N],
) -> Outcome<(T, usize)>
where
    T: Display,
{
    list.reverse();
    assert!(holds(format!("generic:{value}:{other}")));
    Ok((value, list.len()))
}

#[locked("opaque:{id}")]
async fn opaque(id: u32) -> Outcome<impl Display> {
    if id == 0 {
        return Ok("none".to_owned());
    }
    Ok(id.to_string())
}

/// Documented, and `#[must_use]` for a reason.
#[must_use = "it says whether the lock was held"]
#[tracing::instrument(err)]
#[locked("traced:{id}")]
async fn traced_around(id: u32) -> Outcome {
    Ok(holds(format!("traced:{id}")))
}

#[locked("traced:{id}")]
#[tracing::instrument(ret, err)]
async fn traced_inside(id: u32) -> Outcome {
    Ok(holds(format!("traced:{id}")))
}

#[locked("outer:{a}")]
#[locked("inner:{b}")]
async fn two_locks(a: u32, b: u32) -> Outcome {
    Ok(holds(format!("outer:{a}")) && holds(format!("inner:{b}")))
}

#[locked("even:{id}")]
async fn is_even(id: u32, number: u32) -> Outcome {
    if number == 0 {
        Ok(true)
    } else {
        is_odd(id, number - 1).await
    }
}

async fn is_odd(id: u32, number: u32) -> Outcome {
    if number == 0 {
        Ok(false)
    } else {
        is_even(id, number - 1).await
    }
}

#[locked("rc:{counter}")]
async fn not_send(counter: Rc<u32>) -> Outcome {
    tokio::task::yield_now().await;
    Ok(holds(format!("rc:{counter}")))
}

macro_rules! by_macro {
    ($name:ident, $template:literal, $ttl:expr, $argument:ident) => {
        #[locked($template, ttl = $ttl)]
        async fn $name($argument: u32) -> Outcome {
            Ok(holds(format!("macro:{}", $argument)))
        }
    };
}
by_macro!(from_macro, "macro:{id}", "5s", id);
#[locked("boxed:{id}")]
fn boxed(id: u32) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
    let twice = 2 * id;
    Box::pin(async move { Ok(twice == 2 * id && holds(format!("boxed:{id}"))) })
}

#[allow(clippy::manual_async_fn, reason = "that is the form")]
#[locked("bare:{id}")]
fn bare(id: &u32) -> impl Future<Output = Outcome> + Send {
    async move { Ok(holds(format!("bare:{id}"))) }
}

#[locked("order:{id}")]
async fn with_imports(id: u64) -> Outcome<String> {
    use std::fmt::Write as _;

    let mut text = String::new();
    let _ = write!(text, "order {id}");
    tokio::task::yield_now().await;
    Ok(text)
}

#[locked(key = "nightly", held = lock)]
async fn with_constants(_by: &str) -> Outcome<u32> {
    const STEP: u32 = 5;

    tokio::task::yield_now().await;
    Ok(STEP + lock.depth())
}

#[allow(clippy::manual_async_fn, reason = "that is the form")]
#[locked("{from}", "{to}")]
fn with_functions(from: u32, to: u32) -> impl Future<Output = Outcome<u32>> {
    async move {
        fn sum(from: u32, to: u32) -> u32 {
            from + to
        }

        tokio::task::yield_now().await;
        Ok(sum(from, to))
    }
}

/// This is like a crate that forbids lints: an expansion that sets their level is an error there.
#[forbid(
    unused,
    nonstandard_style,
    rust_2018_idioms,
    clippy::used_underscore_binding
)]
#[forbid(clippy::all, clippy::pedantic)]
#[deny(forbidden_lint_groups)]
mod forbidding {
    use super::{Locks, Outcome, holds, locked};

    #[locked("forbidding:{id}", ttl = "10s", locks = locks)]
    pub(super) async fn ship(
        id: u32,
        (_by, _): (u8, u8),
        #[cfg(test)] _why: &str,
        locks: Locks,
    ) -> Outcome {
        Ok(holds(format!("forbidding:{id}"))
            && locks.admin().inspect("forbidding:1").await?.is_some())
    }
}

#[tokio::test]
async fn free_functions_run_under_their_lock() {
    let all = async {
        let (value, length) = generic(String::from("a"), 1, [0; 3]).await?;
        assert_eq!((value.as_str(), length), ("a", 3));
        assert_eq!(opaque(7).await?.to_string(), "7");
        assert!(traced_around(1).await? && traced_inside(1).await?);
        assert!(two_locks(1, 2).await?);
        assert!(is_even(1, 8).await?);
        assert!(not_send(Rc::new(1)).await?);
        assert!(from_macro(1).await?);
        assert!(forbidding::ship(1, (1, 2), "order", Locks::in_memory()).await?);
        assert!(boxed(1).await? && bare(&1).await?);
        assert_eq!(with_imports(7).await?, "order 7");
        assert_eq!(
            (with_constants("cron").await?, with_functions(1, 2).await?),
            (6, 3)
        );
        Ok::<_, LockError>(())
    };
    Locks::in_memory().scope(all).await.unwrap();
}

#[tokio::test]
async fn the_future_is_send_when_the_body_is_also_in_recursion() {
    let locks = Locks::in_memory();
    let spawned = tokio::spawn(async move { locks.scope(is_even(1, 8)).await });
    assert!(spawned.await.unwrap().unwrap());
}
