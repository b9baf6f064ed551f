//! `#[locked]`: how the key is derived from the arguments, and what happens to the arguments.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use reentry::{LockError, Locks, held, locked};

struct Order {
    id: u64,
    lines: Vec<String>,
}

impl Order {
    fn name(&self) -> String {
        format!("{}/{}", self.id, self.lines.len())
    }
}

fn order(id: u64) -> Order {
    Order {
        id,
        lines: vec!["tea".to_owned()],
    }
}

#[locked("{order.id}:{order.name()}:{order.lines[0]}:{ids[0]}:{u64::from(ids[1])}:{text}")]
async fn expressions(
    order: &Order,
    ids: &[u32],
    text: impl AsRef<str> + std::fmt::Display,
) -> Result<bool, LockError> {
    Ok(held(format!(
        "{}:{}/1:tea:7:8:{}",
        order.id,
        order.id,
        text.as_ref()
    ))
    .is_some())
}

#[locked(r#"{map["}"]}:{if *flag { 'y' } else { 'n' }}"#)]
async fn braces(map: &HashMap<&str, u32>, flag: &bool) -> Result<bool, LockError> {
    Ok(held(format!("{}:{}", map["}"], if *flag { 'y' } else { 'n' })).is_some())
}

#[locked("{{user:{id}}}:{id:04}:{name:?}:{name:>4}")]
async fn formats(id: u32, name: &str) -> Result<bool, LockError> {
    Ok(held(format!("{{user:{id}}}:{id:04}:{name:?}:{name:>4}")).is_some())
}

#[locked("{left}:{id}:{first}")]
async fn patterns(
    (left, _): (u32, u32),
    Order { id, .. }: Order,
    [first, ..]: [u32; 2],
) -> Result<bool, LockError> {
    Ok(held(format!("{left}:{id}:{first}")).is_some())
}

#[locked(key = names.join("+"))]
async fn computed(names: &[&str]) -> Result<bool, LockError> {
    Ok(held("a+b").is_some())
}

#[locked("{type}:{r#fn}:{r#type:?}:{name}")]
async fn keywords(r#type: &str, r#fn: u8, r#name: &str) -> Result<bool, LockError> {
    Ok(held(format!("{type}:{fn}:{type:?}:{name}")).is_some())
}

const NIGHTLY: &str = "jobs:{nightly}";

#[locked(key = NIGHTLY)]
async fn constant() -> Result<bool, LockError> {
    Ok(held(NIGHTLY).is_some())
}

#[tokio::test]
async fn the_key_is_what_the_template_or_the_expression_says() {
    let locks = Locks::in_memory();
    let order = order(5);
    let all = async {
        assert!(expressions(&order, &[7, 8], "x").await.unwrap());
        assert!(braces(&HashMap::from([("}", 3)]), &true).await.unwrap());
        assert!(formats(7, "ab").await.unwrap());
        assert!(patterns((1, 2), self::order(3), [4, 5]).await.unwrap());
        assert!(keywords("csv", 1, "shop").await.unwrap());
        assert!(computed(&["a", "b"]).await.unwrap());
        assert!(constant().await.unwrap());
    };
    locks.scope(all).await;
}

#[locked("{id.parse::<u32>()?}")]
async fn checked(id: &str) -> Result<bool, Box<dyn std::error::Error>> {
    Ok(held("42").is_some())
}

#[locked("order:{tenant.len()}:{tenant}:{name}", held = lock)]
async fn chosen(tenant: &str, name: &str) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[tokio::test]
async fn a_length_keeps_the_parts_that_users_choose_apart() {
    let locks = Locks::in_memory();
    let key = async |tenant, name| locks.scope(chosen(tenant, name)).await.unwrap();
    assert_eq!(key("1:2", "3").await, "order:3:1:2:3");
    assert_ne!(key("1:2", "3").await, key("1", "2:3").await);
}

#[tokio::test]
async fn a_key_that_cannot_be_computed_fails_the_call_before_any_lock() {
    let locks = Locks::in_memory();
    assert!(locks.scope(checked("042")).await.unwrap());
    let error = locks.scope(checked("x")).await.unwrap_err();
    assert!(error.is::<std::num::ParseIntError>(), "{error}");
}

#[locked("order:{order.id}")]
async fn moves(mut order: Order) -> Result<Vec<String>, LockError> {
    order.id += 1;
    assert!(held("order:5").is_some());
    let Order { lines, .. } = order;
    Ok(lines)
}

#[locked("text:{text}")]
async fn borrows<'a>(text: &'a str, log: &mut Vec<&'a str>) -> Result<&'a str, LockError> {
    log.push(text);
    Ok(text.trim())
}

#[tokio::test]
async fn the_key_is_computed_first_and_then_the_arguments_are_the_bodys_own() {
    let locks = Locks::in_memory();
    assert_eq!(locks.scope(moves(order(5))).await.unwrap(), ["tea"]);
    let (text, mut log) = (String::from(" x "), Vec::new());
    let trimmed = locks.scope(borrows(&text, &mut log)).await.unwrap();
    assert_eq!((trimmed, log), ("x", vec![" x "]));
}

#[locked(key = { polls.fetch_add(1, Ordering::Relaxed); "lazy" })]
async fn lazy(polls: &AtomicU32) -> Result<u32, LockError> {
    Ok(polls.load(Ordering::Relaxed))
}

#[tokio::test]
async fn nothing_happens_before_the_first_poll() {
    let polls = AtomicU32::new(0);
    drop(lazy(&polls));
    assert_eq!(polls.load(Ordering::Relaxed), 0);
    assert_eq!(Locks::in_memory().scope(lazy(&polls)).await.unwrap(), 1);
}

/// Notes when it is dropped, and whether the lock is held then.
struct Note<'a>(&'static str, &'a Mutex<Vec<String>>);

impl Drop for Note<'_> {
    fn drop(&mut self) {
        let state = if held("drops:1").is_some() {
            "locked"
        } else {
            "free"
        };
        if let Ok(mut notes) = self.1.lock() {
            notes.push(format!("{} {state}", self.0));
        }
    }
}

struct Pair<'a> {
    id: u32,
    _note: Note<'a>,
}

impl<'a> Pair<'a> {
    fn new(notes: &'a Mutex<Vec<String>>) -> Self {
        Self {
            id: 1,
            _note: Note("pair", notes),
        }
    }
}

// The same function twice. It uses one field of `pair` and nothing of `_unused`.
#[locked("drops:{pair.id}")]
async fn drops<'a>(
    pair: Pair<'a>,
    (left, right): (Note<'a>, Note<'a>),
    _unused: Note<'a>,
) -> Result<u32, LockError> {
    let _local = Note("local", left.1);
    drop(right);
    Ok(pair.id)
}

async fn plain<'a>(
    pair: Pair<'a>,
    (left, right): (Note<'a>, Note<'a>),
    _unused: Note<'a>,
) -> Result<u32, LockError> {
    let _local = Note("local", left.1);
    drop(right);
    Ok(pair.id)
}

#[tokio::test]
async fn arguments_are_dropped_as_in_a_plain_function_and_before_the_release() {
    let (locked, free) = (Mutex::default(), Mutex::default());
    let pair = |notes| (Note("left", notes), Note("right", notes));
    let call = drops(Pair::new(&locked), pair(&locked), Note("unused", &locked));
    Locks::in_memory().scope(call).await.unwrap();
    plain(Pair::new(&free), pair(&free), Note("unused", &free))
        .await
        .unwrap();
    let locked = locked.into_inner().unwrap().join(", ");
    assert_eq!(
        locked.replace("locked", "free"),
        free.into_inner().unwrap().join(", ")
    );
    assert!(!locked.contains("free"), "{locked}");
}
