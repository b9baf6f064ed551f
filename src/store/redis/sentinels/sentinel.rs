//! One sentinel: a connection to it, which is kept, and what it says.

use std::collections::{BTreeMap, BTreeSet};

use deadpool_redis::redis::{
    AsyncConnectionConfig, Client, Cmd, FromRedisValue, PushInfo, PushKind, RedisError,
    aio::{MultiplexedConnection, SendError},
    cmd,
};
use tokio::{join, sync::watch};

use crate::{
    base::mutex::Mutex,
    store::redis::{
        address::{Address, Place},
        source::Timeouts,
    },
};

/// What a sentinel tells unasked: that the primary is another one, that a replica has become one, that there is a further
/// sentinel.
const CHANNELS: [&str; 3] = ["+switch-master", "+promoted-slave", "+sentinel"];

/// One sentinel.
pub(super) struct Sentinel {
    address: Address,
    connection: Mutex<Option<MultiplexedConnection>>,
    /// Counts what the sentinels tell unasked, and the connections to them that have ended.
    news: watch::Sender<u64>,
}

/// What a sentinel says.
#[derive(Debug)]
pub(super) struct Answer {
    /// `None` if it knows none of this name.
    pub(super) primary: Option<Named>,
    /// The other sentinels that it knows.
    pub(super) others: BTreeSet<Place>,
}

/// The primary that a sentinel names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    /// The configuration epoch: grows with each failover.
    pub(super) epoch: u64,
    pub(super) place: Place,
}

impl Sentinel {
    pub(super) fn new(address: Address, news: watch::Sender<u64>) -> Self {
        Self {
            address,
            connection: Mutex::default(),
            news,
        }
    }

    /// Asks for the primary of this name, over the connection that is there, or another one if that has ended.
    pub(super) async fn ask(&self, name: &str, timeouts: Timeouts) -> Result<Answer, RedisError> {
        let present = self.connection.lock().clone();
        if let Some(connection) = present {
            match ask(&connection, name).await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    *self.connection.lock() = None;
                    // One that stands still would do so again.
                    if error.is_timeout() {
                        return Err(error);
                    }
                }
            }
        }
        let connection = self.connect(timeouts).await?;
        let answer = ask(&connection, name).await?;
        *self.connection.lock() = Some(connection);
        Ok(answer)
    }

    async fn connect(&self, timeouts: Timeouts) -> Result<MultiplexedConnection, RedisError> {
        let news = self.news.clone();
        let told = move |push: PushInfo| -> Result<(), SendError> {
            if matches!(push.kind, PushKind::Message | PushKind::Disconnection) {
                news.send_modify(|count| *count += 1);
            }
            Ok(())
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeouts.connect))
            .set_response_timeout(Some(timeouts.response))
            .set_push_sender(told);
        let client = Client::open(self.address.info.clone())?;
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = connecting.await?;
        connection.subscribe(&CHANNELS[..]).await?;
        Ok(connection)
    }
}

/// Whoever subscribes first misses nothing that comes after the answer.
async fn ask(connection: &MultiplexedConnection, name: &str) -> Result<Answer, RedisError> {
    let (place, state, others) = join!(
        query::<Option<(String, u16)>>(connection, sentinel("GET-MASTER-ADDR-BY-NAME", name)),
        query::<BTreeMap<String, String>>(connection, sentinel("MASTER", name)),
        query::<Vec<BTreeMap<String, String>>>(connection, sentinel("SENTINELS", name)),
    );
    let Some((host, port)) = place? else {
        return Ok(Answer {
            primary: None,
            others: BTreeSet::new(),
        });
    };
    let state = state?;
    let epoch = state.get("config-epoch").and_then(|it| it.parse().ok());
    let others = others?.into_iter().filter_map(|mut sentinel| {
        let port = sentinel.get("port")?.parse().ok()?;
        let host = sentinel.remove("ip")?;
        Some(Place { host, port })
    });
    Ok(Answer {
        primary: Some(Named {
            epoch: epoch.unwrap_or_default(),
            place: Place { host, port },
        }),
        others: others.collect(),
    })
}

fn sentinel(verb: &str, name: &str) -> Cmd {
    cmd("SENTINEL").arg(verb).arg(name).to_owned()
}

async fn query<T: FromRedisValue>(
    connection: &MultiplexedConnection,
    command: Cmd,
) -> Result<T, RedisError> {
    command.query_async(&mut connection.clone()).await
}
