//! Permissions that are missing for a moment, for example while the rights of a user are changed one after the other.

use std::collections::BTreeSet;

use redis::Script as Plain;

use super::super::requests::{Cast, STATES, Sending};
use super::super::server::Server;
use super::super::world::World;
use super::ask;
use crate::redis::Script;
use crate::store::redis::lua;

/// The commands that a script calls.
fn commands(script: &Script) -> BTreeSet<String> {
    let calls = script.source().split("call('").skip(1);
    let names = calls.filter_map(|call| Some(call.split_once('\'')?.0.to_lowercase()));
    names.collect()
}

/// What would keep other processes out for ever, or has no holder.
async fn unsound(world: &World) -> Vec<String> {
    const UNSOUND: &str = "
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('PTTL', key) == -1 then
    table.insert(found, key .. ' never expires')
  end
  if redis.call('TYPE', key).ok == 'hash' and redis.call('HLEN', key) == redis.call('HEXISTS', key, 'mode') then
    table.insert(found, key .. ' has only a token')
  end
end
return found";
    let mut connection = world.server().connection.clone();
    let found = Plain::new(UNSOUND).invoke_async(&mut connection).await;
    found.expect("the keys")
}

async fn deny_each(world: &World, is_denied: impl Fn(&Sending) -> BTreeSet<String>) {
    let mut wrong = Vec::new();
    for state in STATES {
        let () = ask(world, "FLUSHALL").await;
        let names = Cast::form(world, state).await.requests(world);
        assert!(unsound(world).await.is_empty(), "{state}");
        for (at, named) in names.iter().enumerate() {
            for denied in is_denied(named) {
                let () = ask(world, "FLUSHALL").await;
                let cast = Cast::form(world, state).await;
                let request = cast.requests(world).swap_remove(at);
                let () = ask(world, &format!("ACL SETUSER default -{denied}")).await;
                let rejected = request.answer.await.is_err();
                let () = ask(world, "ACL SETUSER default +@all").await;
                let found = unsound(world).await;
                if !found.is_empty() {
                    let name = named.name;
                    wrong.push(format!(
                        "{name}, {state}, without {denied} ({rejected}): {found:?}"
                    ));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of them:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[tokio::test]
async fn a_script_without_one_right_leaves_nothing_for_ever() {
    let world = World::on(Server::start().await.without_batches()).await;
    deny_each(&world, |request| commands(request.script)).await;
}

#[tokio::test]
async fn a_batch_without_one_right_leaves_nothing_for_ever() {
    let world = World::on(Server::start().await.with_batches()).await;
    let denied = |request: &Sending| match request.is_short {
        true => commands(&lua::BATCH),
        false => BTreeSet::new(),
    };
    deny_each(&world, denied).await;
}
