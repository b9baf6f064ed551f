//! Work that leaves the task in which it is spawned, and keeps the chain around it.
//!
//! Its chain is its own: each frame is a copy, because the frames of the task that it leaves stay where they are.
//! Beyond the copies, its chain contains what encloses its poll.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project::{pin_project, pinned_drop};
use tokio::task::futures::TaskLocalFuture;

use crate::hold::member::{Member, Members};
use crate::hold::scope::{CHAIN, Frame, frames};

/// The chain of work that leaves its task.
#[derive(Debug)]
pub(crate) struct Chain {
    innermost: Arc<Frame>,
    outermost: Arc<Frame>,
}

impl Chain {
    /// The chain around the caller, and a member in each of its holds; `None` if the caller holds nothing.
    pub(crate) fn leave() -> Option<(Self, Members)> {
        let (mut members, mut around) = (Vec::<Member>::new(), Vec::new());
        for frame in frames() {
            let before = members.len();
            for hold in frame.holds() {
                if members.iter().any(|member| member.is_of(hold)) {
                    // An inner entry of this hold already has a member.
                    continue;
                }
                let renewals = frame.renewals();
                members.extend(renewals.and_then(|renewals| Member::of(hold, renewals)));
            }
            if members.len() > before {
                around.push(frame);
            }
        }
        let outermost = around.pop()?.copy(None);
        let inside = |outer, frame: &Arc<Frame>| frame.copy(Some(outer));
        let innermost = around.iter().rev().fold(Arc::clone(&outermost), inside);
        let chain = Self {
            innermost,
            outermost,
        };
        Some((chain, Members::new(members)))
    }

    fn place_here(&self) {
        self.innermost.place_here(&self.outermost);
    }

    /// Runs `work` inside the chain.
    pub(crate) fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        self.place_here();
        CHAIN.sync_scope(Arc::clone(&self.innermost), work)
    }
}

/// A future that has left its task.
#[pin_project(PinnedDrop)]
pub(crate) struct Apart<F> {
    chain: Chain,
    #[pin]
    body: TaskLocalFuture<Arc<Frame>, F>,
}

impl<F: Future> Apart<F> {
    pub(crate) fn new(chain: Chain, body: F) -> Self {
        let body = CHAIN.scope(Arc::clone(&chain.innermost), body);
        Self { chain, body }
    }
}

impl<F: Future> Future for Apart<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        this.chain.place_here();
        this.body.poll(cx)
    }
}

/// The body is also dropped inside its chain, by tokio's own future, and wherever that is dropped.
#[pinned_drop]
impl<F> PinnedDrop for Apart<F> {
    fn drop(self: Pin<&mut Self>) {
        self.chain.place_here();
    }
}
