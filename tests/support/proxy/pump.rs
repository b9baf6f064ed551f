//! The tasks of the proxy: one for each connection, with two pumps that have a reader and a writer each.

use super::state::{Action, Cut, Direction, Link, Side, State};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

type Shared = Arc<watch::Sender<State>>;

/// The thread of the proxy, which runs until the state says `stopped`.
pub(super) fn run(shared: &Shared, listener: std::net::TcpListener, target: SocketAddr) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime for the proxy");
    runtime.block_on(async {
        tokio::select! {
            () = until(shared, |state| state.stopped) => {}
            () = listen(shared, listener, target) => {}
        }
    });
}

async fn listen(shared: &Shared, listener: std::net::TcpListener, target: SocketAddr) {
    let address = listener.local_addr().expect("a bound listener");
    let mut listener = TcpListener::from_std(listener).expect("a listener for tokio");
    loop {
        shared.send_modify(|state| state.listening = true);
        tokio::select! {
            () = until(shared, |state| state.refusing) => {}
            () = accept(shared, &listener, target) => {}
        }
        // Closing it is not enough. While another test starts a process, the copy of the descriptor between fork and
        // exec keeps the socket listening. (Not allowed on macOS.)
        let _ = rustix::net::shutdown(&listener, rustix::net::Shutdown::Both);
        drop(listener);
        shared.send_modify(|state| state.listening = false);
        until(shared, |state| !state.refusing).await;
        listener = TcpListener::bind(address).await.expect("the reserved port");
    }
}

async fn accept(shared: &Shared, listener: &TcpListener, target: SocketAddr) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // Most likely no descriptors are left. The other connections get a moment to end.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        shared.send_modify(|state| state.accepted += 1);
        let id = shared.borrow().accepted;
        tokio::spawn(connect(Arc::clone(shared), id, client, target));
    }
}

async fn connect(shared: Shared, id: u64, client: TcpStream, target: SocketAddr) {
    let Ok(server) = TcpStream::connect(target).await else {
        // This is the closest equivalent to a rejection by the server, after the connection was accepted.
        client.set_zero_linger().expect("an open socket");
        return;
    };
    for socket in [&client, &server] {
        socket.set_nodelay(true).expect("an open socket");
    }
    shared.send_modify(|state| {
        state.links.insert(id, Link::new());
    });
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::join!(
        read(&shared, id, Direction::ToServer, from_client, target),
        write(&shared, id, Direction::ToServer, to_server),
        read(&shared, id, Direction::ToClient, from_server, target),
        write(&shared, id, Direction::ToClient, to_client),
    );
    shared.send_modify(|state| {
        state.links.remove(&id);
    });
}

async fn read(
    shared: &Shared,
    id: u64,
    direction: Direction,
    mut socket: OwnedReadHalf,
    target: SocketAddr,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = tokio::select! {
            biased;
            _ = cut(shared, id, direction.from()) => 0,
            // A reset ends the stream as an end of file does.
            read = socket.read(&mut buffer) => read.unwrap_or(0),
        };
        let chunk = &buffer[..length];
        let mut action = None;
        if length > 0 {
            shared.send_modify(|state| action = state.rule_for(direction, chunk));
        }
        if action == Some(Action::Twice) {
            tokio::select! {
                _ = cut(shared, id, direction.from()) => {}
                // A server that does not respond to the request once will not respond to it twice.
                _ = exchange(target, chunk) => {}
            }
        }
        shared.send_modify(|state| state.arrived(id, direction, chunk, action));
        if length == 0 {
            break;
        }
    }
    drop(socket);
    with_link(shared, id, |link| link.reading[direction.from()] = false);
}

async fn write(shared: &Shared, id: u64, direction: Direction, mut socket: OwnedWriteHalf) {
    let how = tokio::select! {
        biased;
        how = cut(shared, id, direction.to()) => Some(how),
        // The reader of the other direction notices a peer that is gone.
        _ = deliver(shared, id, direction, &mut socket) => None,
    };
    match how {
        Some(Cut::Reset) => {
            // Without `forget` the half sends FIN first. A socket that the peer has closed may reject it.
            let _ = socket.as_ref().set_zero_linger();
            socket.forget();
        }
        Some(Cut::Fin) | None => drop(socket),
    }
    with_link(shared, id, |link| link.writing[direction.to()] = false);
}

/// Writes the items that are due, until the end of the stream has been forwarded.
async fn deliver(
    shared: &Shared,
    id: u64,
    direction: Direction,
    socket: &mut OwnedWriteHalf,
) -> io::Result<()> {
    loop {
        until(shared, |state| state.due(id, direction).is_some()).await;
        let Some(due) = shared.borrow().due(id, direction) else {
            continue;
        };
        tokio::time::sleep_until(due).await;
        let mut item = None;
        with_link(shared, id, |link| {
            if !link.held[direction] {
                item = link.queues[direction].pop_front();
            }
        });
        let Some(item) = item else { continue };
        if item.bytes.is_empty() {
            return socket.shutdown().await;
        }
        socket.write_all(&item.bytes).await?;
    }
}

/// Sends one request on a separate connection. Returns the first bytes of its response.
async fn exchange(target: SocketAddr, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut server = TcpStream::connect(target).await?;
    server.write_all(request).await?;
    let mut answer = vec![0; 64 * 1024];
    let length = server.read(&mut answer).await?;
    answer.truncate(length);
    Ok(answer)
}

/// Ends when this side of the link must be cut.
async fn cut(shared: &Shared, id: u64, side: Side) -> Cut {
    let found = |state: &State| state.links.get(&id).and_then(|link| link.cut[side]);
    until(shared, |state| found(state).is_some()).await;
    let how = found(&shared.borrow());
    how.unwrap_or(Cut::Fin)
}

async fn until(shared: &Shared, condition: impl FnMut(&State) -> bool) {
    let mut state = shared.subscribe();
    // The sender is behind `shared`, so the channel is open.
    let _ = state.wait_for(condition).await;
}

fn with_link(shared: &Shared, id: u64, change: impl FnOnce(&mut Link)) {
    shared.send_modify(|state| {
        if let Some(link) = state.links.get_mut(&id) {
            change(link);
        }
    });
}
