//! The labels that a program gives to its holds.

use std::fmt;
use std::sync::Arc;

use crate::base::process::shown;

type LabelOf = dyn Fn(&str) -> Option<Arc<str>> + Send + Sync;

/// Gives a hold its label, derived from the name of its key.
#[derive(Clone, Default)]
pub(crate) struct Labeller(Option<Arc<LabelOf>>);

impl Labeller {
    pub(crate) fn new<S: Into<Arc<str>>>(
        label: impl Fn(&str) -> Option<S> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(move |key| label(key).map(Into::into))))
    }

    /// Whether there may be labels.
    pub(crate) fn are_given(&self) -> bool {
        self.0.is_some()
    }

    /// The label of a hold whose key has this name.
    pub(crate) fn of(&self, name: &str) -> Option<Arc<str>> {
        self.0.as_ref().and_then(|label| label(name))
    }
}

impl fmt::Debug for Labeller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Labeller").finish_non_exhaustive()
    }
}

/// The label as it is stored and shown. An empty label counts as none.
pub(crate) fn stored(label: &str) -> Option<Arc<str>> {
    Some(shown(label))
        .filter(|label| !label.is_empty())
        .map(Into::into)
}
