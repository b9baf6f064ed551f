//! On Redis: data that no script of ours has written. What cannot be read counts as if it were not
//! there, and beside the lock it is removed by the script that meets it.

use deadpool_redis::redis::{FromRedisValue, ToRedisArgs, cmd};

use super::world::{MINUTE, World, some_hold};
use crate::store::SHOWN;

const LOCK: &str = "app:order";

/// One command of the test itself, with any bytes in it.
async fn put<T: FromRedisValue>(world: &World, command: &str, args: &[impl ToRedisArgs]) -> T {
    let mut connection = world.server().connection.clone();
    let mut command = cmd(command);
    let answer = command.arg(args).query_async(&mut connection).await;
    answer.expect("an answer")
}

#[tokio::test]
async fn a_field_of_any_bytes_can_be_released_by_force() {
    let world = World::on_redis().await;
    for field in [&b""[..], b"\xff\xfe", b"a\0b", b" \r\n"] {
        let () = put(&world, "HSET", &[LOCK.as_bytes(), field, b"1"]).await;
        let seen = world.seen().await;
        assert_eq!((&*seen.field, seen.token), (field, None));
        assert!(world.force_release(seen).await, "{field:?}");
        assert_eq!(world.inspect().await, None);
    }
}

#[tokio::test]
async fn thousands_of_fields_are_shown_in_part_and_released_by_force() {
    let world = World::on_redis().await;
    for count in [SHOWN - 1, SHOWN, 9_000] {
        let mut fields = vec![LOCK.to_owned()];
        fields.extend((0..count).flat_map(|n| [format!("field:{n}"), "1".to_owned()]));
        let () = put(&world, "HSET", &fields).await;
        assert_eq!(world.holders().await.len(), count.min(SHOWN));
        assert!(world.force_release(world.seen().await).await);
        assert_eq!(world.inspect().await, None);
    }
}

#[tokio::test]
async fn the_token_is_shown_also_where_its_hold_is_not() {
    let world = World::on_redis().await;
    let hold = some_hold();
    let token = world.take(hold, MINUTE).await;
    let mut fields = vec![LOCK.to_owned()];
    fields.extend((0..9_000).flat_map(|n| [format!("field:{n}"), "1".to_owned()]));
    let () = put(&world, "HSET", &fields).await;
    assert_eq!(world.seen().await.token, Some(token));
    assert!(world.force_release(world.seen().await).await);
}
