//! The functions that the expansion of `#[locked]` calls. They are not part of the public interface.

use std::rc::Rc;
use std::sync::Arc;

use crate::api::locks::{INSTALLED, Locks, SCOPED};
use crate::base::error::LockError;
use crate::hold::held::Held;
use crate::hold::scope;

/// Returns the `Locks` in scope, or else the installed one.
pub fn locks() -> Option<Locks> {
    // The scope is nearer to the call than what is installed for the process.
    let scoped = SCOPED.try_with(Locks::clone).ok();
    scoped.or_else(|| INSTALLED.get().cloned())
}

/// Returns the error of a function that has no `Locks` for its key.
pub fn no_locks(function: &'static str, key: impl AsRef<str>) -> LockError {
    let key = key.as_ref();
    let what = format!(
        "`{function}` has no `Locks` to lock `{key}` with: call `Locks::install` at startup, or call the function inside `Locks::scope`"
    );
    LockError::misuse(key, what)
}

/// Returns the lock of the body that begins now.
pub fn held() -> Held {
    scope::current().unwrap_or_else(|| unreachable!("the body runs under its lock"))
}

/// Mentions an argument, so that the body captures it.
pub fn capture<T: ?Sized>(_: &T) {}

/// The types that `locks = …` accepts. With a trait of its own, the compiler can name the accepted types in its
/// message.
#[diagnostic::on_unimplemented(
    message = "`locks = …` takes a `Locks` or a `&Locks`, not a value of the type `{Self}`",
    label = "not a `Locks`",
    note = "use a `Locks` that already exists, as in `locks = self.locks`; \
            `Locks::connect(\"redis://…\").await?` creates one from a URL; \
            a static `LazyLock<Locks>` is `locks = *LOCKS`"
)]
pub trait AsLocks {
    /// The `Locks`.
    fn as_locks(&self) -> &Locks;
}

impl AsLocks for Locks {
    fn as_locks(&self) -> &Locks {
        self
    }
}

macro_rules! pointers {
    ($($pointer:ty),+) => {
        $(#[diagnostic::do_not_recommend]
        impl AsLocks for $pointer {
            fn as_locks(&self) -> &Locks {
                self
            }
        })+
    };
}
pointers!(
    &Locks,
    &&Locks,
    &mut Locks,
    Box<Locks>,
    Rc<Locks>,
    Arc<Locks>,
    &Arc<Locks>
);

// The examples need this crate, and the crate of the attribute cannot depend on it.
#[cfg(all(doctest, feature = "macros"))]
#[doc = include_str!("../../docs/locked.md")]
pub struct ExamplesOfLocked;
