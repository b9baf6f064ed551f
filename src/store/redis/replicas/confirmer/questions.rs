//! Who waits for replicas, and what is told to whom.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use tokio::select;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::base::error::StoreError;
use crate::base::option_types::Confirmation;
use crate::base::timer::sleep_until;

/// A caller that wants to know.
pub(super) struct Question {
    /// A key in the slot of the lock, so that a cluster lets it be written here.
    pub(super) key: String,
    pub(super) until: Instant,
    pub(super) is_taken: Arc<AtomicBool>,
    pub(super) answer: oneshot::Sender<Result<Confirmation, StoreError>>,
}

/// The questions that are not answered yet, and those that come.
pub(super) struct Questions {
    waiting: Vec<Question>,
    coming: UnboundedReceiver<Question>,
}

impl Questions {
    pub(super) fn new(coming: UnboundedReceiver<Question>) -> Self {
        Self {
            waiting: Vec::new(),
            coming,
        }
    }

    /// Waits until there is one. Returns the key of the first one, and how many there are; `None` if no more will come.
    pub(super) async fn next(&mut self) -> Option<(String, usize)> {
        loop {
            while let Ok(question) = self.coming.try_recv() {
                self.take(question);
            }
            let now = Instant::now();
            let is_open = |it: &Question| now < it.until && !it.answer.is_closed();
            self.waiting.retain(is_open);
            if let Some(first) = self.waiting.first() {
                return Some((first.key.clone(), self.waiting.len()));
            }
            let question = self.coming.recv().await?;
            self.take(question);
        }
    }

    /// Takes those that come while `work` goes on: they are for what comes after it.
    pub(super) async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            select! {
                biased;
                done = &mut work => return done,
                Some(question) = self.coming.recv() => self.take(question),
            }
        }
    }

    /// Waits until then. Callers whose time ends before that are told the error at once.
    pub(super) async fn pause(&mut self, until: Instant, error: &StoreError) {
        let mut pause = pin!(sleep_until(until));
        loop {
            self.fail(error, |it| it.until <= until);
            select! {
                biased;
                () = &mut pause => return,
                Some(question) = self.coming.recv() => self.take(question),
            }
        }
    }

    fn take(&mut self, question: Question) {
        question.is_taken.store(true, Relaxed);
        self.waiting.push(question);
    }

    /// Tells the first ones that their replicas have it.
    pub(super) fn confirm(&mut self, asked: usize) {
        for question in self.waiting.drain(..asked) {
            // The caller may have given up.
            let _ = question.answer.send(Ok(Confirmation::Confirmed));
        }
    }

    /// Tells the callers of some questions why they are not answered.
    pub(super) fn fail(&mut self, error: &StoreError, is_meant: impl Fn(&Question) -> bool) {
        for question in self.waiting.extract_if(.., |it| is_meant(it)) {
            // The caller may have given up.
            let _ = question.answer.send(Err(error.clone()));
        }
    }
}
