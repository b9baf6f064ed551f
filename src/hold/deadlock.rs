//! An acquisition that waits while its call graph holds other locks may wait for itself, by way of others. It
//! publishes its wait, looks for a cycle among the waits of all processes, and gives way if it is chosen.
//!
//! Of those that wait for each other, the last to publish walks after all others have published: so the cycle is
//! found. It is confirmed by a second walk ([`walk`]). Every wait of a cycle may find it; a claim in the
//! store decides which one gives way.
//!
//! An acquisition that nothing encloses takes no part in this. One that is enclosed arms one timer once its first
//! request is answered and it has to wait; a quarter of a heartbeat after it came, the search begins.

mod publisher;
mod search;
mod waiting;
mod walk;
mod watched;

#[cfg(test)]
mod tests;

pub(crate) use self::waiting::{PublishedCount, Waiting};
pub(crate) use self::watched::watched;
