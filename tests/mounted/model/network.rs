//! The requests in flight, and what may happen to them.

use super::client::Client;
use super::message::{Answer, Request, Verb};
use super::process::Stage;
use super::{machine, store};

impl Client<'_> {
    /// The store executes a request. `again` means that the request will be executed once more.
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

    /// Removes a request, or its response, from the network.
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
            (Verb::Acquire, Some(Answer::Acquired(acquired))) => {
                let reply = machine::reply(acquired, age);
                self.answered(hold.process, age, Ok(vec![reply]));
            }
            (Verb::Share { holds, .. }, Some(answer)) => {
                let replies = machine::replies(holds, answer, age);
                self.answered(hold.process, age, Ok(replies));
            }
            (Verb::Release { .. }, Some(_)) => self.released(hold),
            (Verb::Renew { ttl } | Verb::Keep { ttl }, Some(Answer::Present(present))) => {
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
            Verb::Acquire | Verb::Share { .. } => self.unanswered(hold.process),
            Verb::Release { end } => {
                let end = self.shortened(end.repeated());
                self.send(hold, Verb::Release { end });
            }
            Verb::Renew { .. } | Verb::Keep { .. } | Verb::Depth { .. } => self.unknown(hold, verb),
        }
    }

    pub(crate) fn crash(&mut self, process: u8) {
        self.state.chances.crashes -= 1;
        let queue = machine::new(self.config);
        let whole = self.state.process_mut(process);
        whole.alive = false;
        whole.queue = queue;
        whole.stages.fill(Stage::Over);
        for request in &mut self.state.requests {
            request.awaited &= request.hold.process != process;
        }
        self.state
            .messages
            .retain(|message| message.holds.process != process);
    }
}
