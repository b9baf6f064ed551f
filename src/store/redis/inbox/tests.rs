//! The times at which the waiters are woken because of the inbox itself.

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::*;
use crate::store::HandoffMessage;
use crate::store::redis::{Origin, RedisStore};
use crate::support::{DEADLINE, RedisServer, eventually, within};

/// A process that always waits, and counts how often it is woken.
#[derive(Debug)]
struct Waiting(UnboundedSender<()>);

impl Listener for Waiting {
    fn handoff(&self, _: HandoffMessage) {}

    fn is_idle(&self) -> bool {
        false
    }

    fn missed(&self) {
        // The test may have ended.
        let _ = self.0.send(());
    }
}

/// A process and its store.
struct Process {
    store: RedisStore,
    id: InboxId,
    listener: Arc<dyn Listener>,
    woken: UnboundedReceiver<()>,
}

impl Process {
    async fn start(server: &RedisServer) -> Self {
        let timeouts = Timeouts {
            connect: DEADLINE,
            response: DEADLINE,
        };
        let origin = Origin::parse(&server.url()).expect("a URL");
        let (sender, woken) = unbounded_channel();
        let store = RedisStore::open(origin, timeouts);
        store.topology.connect().await.expect("a connection");
        Self {
            store,
            id: InboxId::new(),
            listener: Arc::new(Waiting(sender)),
            woken,
        }
    }

    fn listen(&self) -> bool {
        self.store.listen(self.id, Arc::downgrade(&self.listener))
    }

    async fn woken(&mut self) {
        let woken = within(DEADLINE, "the waiters are woken", self.woken.recv()).await;
        woken.expect("a listener");
    }
}

async fn until_subscribed(server: &RedisServer) {
    let subscribed = async || !server.subscriptions().await.is_empty();
    eventually(DEADLINE, "the inbox is open", subscribed).await;
}

#[tokio::test]
async fn the_waiters_have_to_ask_from_the_death_of_the_inbox_until_it_is_open_again() {
    let server = RedisServer::start().await;
    let mut process = Process::start(&server).await;
    // They have just sent a request, and are woken when the inbox is open.
    assert!(process.listen());
    process.woken().await;
    assert!(process.listen());

    server.ask("ACL SETUSER default -subscribe").await;
    server.kill_inboxes().await;
    process.woken().await;
    assert!(!process.listen());

    server.ask("ACL SETUSER default +subscribe").await;
    process.woken().await;
    assert!(process.listen());
    until_subscribed(&server).await;
}

#[tokio::test]
async fn the_waiters_have_to_ask_where_the_inbox_cannot_be_opened() {
    let server = RedisServer::start().await;
    let mut process = Process::start(&server).await;
    server.ask("ACL SETUSER default -subscribe").await;
    assert!(process.listen());
    process.woken().await;
    assert!(!process.listen());
}

/// A runtime that ends takes the inbox with it. The waiters on another runtime open it again there.
#[test]
fn the_waiters_open_an_inbox_anew_whose_runtime_has_ended() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().expect("a runtime")
    };
    let (stays, ends) = (runtime(), runtime());
    let server = stays.block_on(RedisServer::start());
    let mut process = stays.block_on(Process::start(&server));
    ends.block_on(async {
        assert!(process.listen());
        process.woken().await;
    });
    drop(ends);
    stays.block_on(async {
        process.woken().await;
        assert!(process.listen());
        process.woken().await;
        until_subscribed(&server).await;
    });
}
