//! The subscriptions of one process: one for each channel, however many tasks wait for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, anyhow};
use futures_util::StreamExt;
use redis::Client;
use redis::aio::PubSubSink;
use tokio::sync::Semaphore;

/// The connection for messages.
pub(super) struct Channels {
    /// Held while a subscription begins or ends, so that the two cannot overtake each other.
    sink: tokio::sync::Mutex<PubSubSink>,
    joined: Joined,
}

type Joined = Arc<Mutex<HashMap<String, Entry>>>;

struct Entry {
    messages: Arc<Semaphore>,
    waiters: usize,
}

/// The place of a waiter at a channel.
pub(super) struct Channel {
    name: String,
    messages: Arc<Semaphore>,
}

impl Channel {
    /// The next message that no other waiter of this process has received.
    pub(super) async fn message(&self) {
        if let Ok(message) = self.messages.acquire().await {
            message.forget();
        }
    }
}

impl Channels {
    pub(super) async fn connect(url: &str) -> Result<Self> {
        let (sink, mut stream) = Client::open(url)?.get_async_pubsub().await?.split();
        let joined = Joined::default();
        let entries = Arc::clone(&joined);
        tokio::spawn(async move {
            while let Some(message) = stream.next().await {
                if let Some(entry) = locked(&entries).get(message.get_channel_name()) {
                    entry.messages.add_permits(1);
                }
            }
        });
        Ok(Self {
            sink: tokio::sync::Mutex::new(sink),
            joined,
        })
    }

    /// Returns when the subscription is established.
    pub(super) async fn join(&self, name: &str) -> Result<Channel> {
        let mut sink = self.sink.lock().await;
        let (first, messages) = {
            let mut entries = locked(&self.joined);
            let entry = entries.entry(name.to_owned()).or_insert_with(|| Entry {
                messages: Arc::new(Semaphore::new(0)),
                waiters: 0,
            });
            entry.waiters += 1;
            (entry.waiters == 1, Arc::clone(&entry.messages))
        };
        if first {
            sink.subscribe(name).await?;
        }
        Ok(Channel {
            name: name.to_owned(),
            messages,
        })
    }

    pub(super) async fn leave(&self, channel: Channel) -> Result<()> {
        let mut sink = self.sink.lock().await;
        let last = {
            let mut entries = locked(&self.joined);
            let entry = entries
                .get_mut(&channel.name)
                .ok_or_else(|| anyhow!("{} was left twice", channel.name))?;
            entry.waiters -= 1;
            let last = entry.waiters == 0;
            if last {
                entries.remove(&channel.name);
            }
            last
        };
        if last {
            sink.unsubscribe(&channel.name).await?;
        }
        Ok(())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
