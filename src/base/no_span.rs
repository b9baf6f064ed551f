//! The spans without the feature `tracing`: there are none.

use crate::base::{
    id::{FencingToken, HoldId},
    key::LockKey,
    mode::Mode,
};

#[derive(Clone, Debug, Default)]
pub(crate) struct Span(());

impl Span {
    pub(crate) fn wait(_: &[LockKey], _: Mode) -> Self {
        Self(())
    }

    pub(crate) fn hold(_: &[LockKey], _: Mode, _: HoldId, _: FencingToken) -> Self {
        Self(())
    }

    pub(crate) fn current() -> Self {
        Self(())
    }

    pub(crate) fn unless_elsewhere(self) -> Self {
        Self(())
    }

    pub(crate) fn is_open(&self) -> bool {
        false
    }

    pub(crate) fn around<F: Future>(&self, future: F) -> F {
        future
    }

    pub(crate) fn enter(&self) -> Option<()> {
        None
    }

    pub(crate) fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        work()
    }

    pub(crate) fn end(&self, _: &'static str) {}

    pub(crate) fn fail(&self, _: &'static str) {}
}
