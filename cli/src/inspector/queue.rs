//! The processes that wait for one lock, in the order in which they are served.

use reentry::__admin::{self, PLACES_END, RedisKeys};

use super::{Inspector, ask, places, read};
use crate::servers::accepted;
use crate::view::{WaitingView, mode};

/// The number of processes that are read at once.
const PAGE: usize = 50;

/// What a process waits for.
#[derive(Debug, PartialEq, Eq)]
struct Entry<'e> {
    /// The time until which the process counts as alive, in µs.
    deadline: u64,
    holds: &'e str,
    is_shared: bool,
    /// The number of permits of which it wants one.
    permits: Option<u64>,
}

impl Inspector {
    /// Returns the first processes that wait for a lock, at most this many, and the number of all places in the queue.
    /// Dead processes are in both.
    ///
    /// # Errors
    ///
    /// [`Unreachable`](crate::servers::Unreachable) if the server does not respond, and a response that is an error.
    pub(crate) async fn queue(
        &self,
        key: &str,
        limit: usize,
    ) -> anyhow::Result<(Vec<WaitingView>, u64)> {
        let keys = __admin::keys(&self.locks, key)?;
        let server = self.server_of(&keys).await?;
        let RedisKeys {
            queue: queue_key,
            entries,
            ..
        } = &keys;
        let places = read(ask(server, &places(queue_key)).await?)?.unwrap_or_default();
        let (end, mut from) = (format!("({PLACES_END}"), "0".to_owned());
        let mut queue = Vec::new();
        while queue.len() < limit {
            let count = PAGE.min(limit - queue.len()).to_string();
            let range = [
                "ZRANGE",
                queue_key,
                &from,
                &end,
                "BYSCORE",
                "LIMIT",
                "0",
                &count,
                "WITHSCORES",
            ];
            let page: Vec<(Vec<u8>, f64)> = read(ask(server, &range).await?)?.unwrap_or_default();
            let Some((_, last)) = page.last() else {
                break;
            };
            from = format!("({last:.0}");
            let inboxes = page.iter().map(|(inbox, _)| &inbox[..]);
            let words: Vec<_> = [&b"HMGET"[..], entries.as_bytes()]
                .into_iter()
                .chain(inboxes)
                .collect();
            let found: Vec<Option<Vec<u8>>> = read(ask(server, &words).await?)?.unwrap_or_default();
            let (seconds, micros): (u64, u64) = accepted(ask(server, &["TIME"]).await?)?;
            let now = seconds * 1_000_000 + micros;
            let mut found = found.into_iter();
            queue.extend(page.iter().map(|(inbox, _)| {
                let entry = found.next().flatten().unwrap_or_default();
                waiting(inbox, Entry::parse(&entry), now)
            }));
        }
        let ids: Vec<_> = queue.iter().map(|it| it.id.clone()).collect();
        let mut known = __admin::processes(&self.locks, &ids).await;
        for waiting in &mut queue {
            waiting.process = known.remove(&waiting.id).map(Into::into);
        }
        Ok((queue, places))
    }
}

impl<'e> Entry<'e> {
    /// Reads `deadline holds lease`, which may have a further word. For readers it begins with an `r`, and the number of
    /// permits may follow. `None` if it cannot be read.
    fn parse(entry: &'e [u8]) -> Option<Self> {
        let words: Vec<_> = str::from_utf8(entry).ok()?.split(' ').collect();
        let (deadline, holds, last) = match words[..] {
            [deadline, holds, _] => (deadline, holds, ""),
            [deadline, holds, _, last] => (deadline, holds, last),
            _ => return None,
        };
        let permits = last.strip_prefix('r');
        Some(Self {
            deadline: deadline.parse().ok()?,
            holds,
            is_shared: permits.is_some(),
            permits: permits.and_then(|permits| permits.parse().ok()),
        })
    }
}

fn waiting(inbox: &[u8], entry: Option<Entry<'_>>, now: u64) -> WaitingView {
    let id = String::from_utf8_lossy(inbox);
    let id = id.strip_prefix("reentry:inbox:").unwrap_or(&id);
    let holds = entry.as_ref().map_or("", |entry| entry.holds).split(',');
    let left = entry
        .as_ref()
        .map_or(0, |entry| entry.deadline.saturating_sub(now));
    let alive_for_ms = (left > 0).then_some(left / 1_000);
    WaitingView {
        id: id.to_owned(),
        process: None,
        mode: mode(entry.as_ref().is_some_and(|entry| entry.is_shared)),
        permits: entry.as_ref().and_then(|entry| entry.permits),
        hold_ids: holds
            .filter(|hold| __admin::is_hold(hold))
            .map(str::to_owned)
            .collect(),
        alive: alive_for_ms.is_some(),
        alive_for_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_cannot_be_read_is_none() {
        for (entry, read) in [
            ("17 a:1 30000", Some((17, "a:1", false, None))),
            (
                "17 a:1 30000 8b1c1a3e-0000-4000-8000-000000000000",
                Some((17, "a:1", false, None)),
            ),
            ("17 a:1,b:2 30000 r", Some((17, "a:1,b:2", true, None))),
            ("17 a:1 30000 r5", Some((17, "a:1", true, Some(5)))),
            ("", None),
            ("x a:1 30000", None),
            ("17 a:1", None),
        ] {
            let entry = Entry::parse(entry.as_bytes());
            let parts = entry.map(|it| (it.deadline, it.holds, it.is_shared, it.permits));
            assert_eq!(parts, read);
        }
    }
}
