//! What an acquisition has entered: one lock, or several.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use pin_project::pin_project;

use crate::{
    base::{error::LockError, span::Span},
    hold::{
        entries::{Entries, Exits},
        entry::Entry,
        exit::Exit,
        hold::Hold,
    },
};

#[derive(Debug)]
pub(crate) enum Entered {
    One(Entry),
    Several(Box<Entries>),
}

impl Entered {
    /// The holds that it has entered.
    pub(crate) fn holds(&self) -> &[Arc<Hold>] {
        match self {
            Self::One(entry) => std::slice::from_ref(entry.hold()),
            Self::Several(entries) => entries.holds(),
        }
    }

    /// Around what is done under them; see [`Entry::span`].
    pub(crate) fn span(&self) -> Span {
        match self {
            Self::One(entry) => entry.span(),
            Self::Several(entries) => entries.span(),
        }
    }

    /// Leaves them; see [`Entry::exit`] and [`Entries::exit`].
    pub(crate) fn exit(self) -> Exiting {
        match self {
            Self::One(entry) => Exiting::One(entry.exit()),
            Self::Several(entries) => Exiting::Several(entries.exit()),
        }
    }
}

/// The future of [`Entered::exit`].
#[pin_project(project = ExitingProjection)]
pub(crate) enum Exiting {
    One(#[pin] Exit<Entry>),
    Several(Exits),
}

impl Future for Exiting {
    type Output = Result<(), LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            ExitingProjection::One(exit) => exit.poll(cx),
            ExitingProjection::Several(exits) => exits.as_mut().poll(cx),
        }
    }
}
