//! Requests on their way, and what may become of them.

use crate::{
    client::{Client, Outcome},
    message::{Answer, Request, Verb},
    process::{Line, Stage, Waiter},
    store,
};

impl Client<'_> {
    /// The store executes a request; `again` if it is going to be executed once more.
    pub(crate) fn execute(&mut self, request: Request, again: bool) {
        self.withdraw(&request);
        let answer = store::execute(self.config, self.state, &request);
        if again {
            self.state.chances.duplicates -= 1;
            self.state.requests.push(Request {
                awaited: false,
                ..request
            });
        }
        self.state.requests.push(Request {
            answer: Some(answer),
            ..request
        });
    }

    /// Takes a request, or its answer, off its way.
    fn withdraw(&mut self, request: &Request) {
        let mut requests = self.state.requests.iter();
        if let Some(at) = requests.position(|other| other == request) {
            self.state.requests.remove(at);
        }
    }

    pub(crate) fn receive(&mut self, request: Request) {
        self.withdraw(&request);
        let Request {
            hold, verb, age, ..
        } = request;
        match (verb, request.answer) {
            (Verb::Acquire, Some(Answer::AcquireReply(acquired))) => {
                let outcome = self.learn(hold, age, acquired);
                self.resolve(hold, outcome, 0);
            }
            (Verb::Release { successor, .. }, Some(Answer::ReleaseReply(acquired))) => {
                self.released(hold, age, successor, acquired);
            }
            (Verb::Renew { ttl }, Some(Answer::Present(present))) => {
                self.renewed(hold, age, ttl, present);
            }
            (verb, Some(Answer::Present(present))) => self.changed(hold, age, verb, present),
            _ => {}
        }
    }

    pub(crate) fn give_up(&mut self, request: Request) {
        self.state.chances.timeouts -= 1;
        self.withdraw(&request);
        let Request { hold, verb, .. } = request;
        self.state.requests.push(Request {
            awaited: false,
            ..request
        });
        match verb {
            Verb::Acquire => {
                self.state.waiter_mut(hold).unanswered = true;
                self.state.line(hold.process).due = true;
                self.resolve(hold, Outcome::Unanswered, 0);
            }
            Verb::Release { successor, .. } => self.release_again(hold, successor),
            Verb::Renew { .. } | Verb::Depth { .. } => self.unknown(hold, verb),
        }
    }

    pub(crate) fn crash(&mut self, process: u8) {
        self.state.chances.crashes -= 1;
        let whole = &mut self.state.processes[usize::from(process)];
        whole.alive = false;
        whole.line = Line::default();
        whole.waiters.fill(Waiter {
            stage: Stage::Over,
            ..Waiter::default()
        });
        for request in &mut self.state.requests {
            request.awaited &= request.hold.process != process;
        }
        self.state.news.retain(|news| news.hold.process != process);
    }
}
