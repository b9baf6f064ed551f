//! The attribute `#[locked]` of the crate [`reentry`](https://docs.rs/reentry), which re-exports
//! it. Use it from there: what it expands to calls `reentry`.

mod args;
mod boxed;
mod duration;
mod errors;
mod expand;
mod function;
mod key;
mod names;
#[cfg(test)]
mod properties;
mod scan;
mod template;
mod unbound;

use proc_macro::TokenStream;

/// Runs every call of an `async fn` under the lock that its arguments name.
///
/// `#[locked("order:{id}")]` makes the body of the function the body of `Locks::with_lock_flat`:
/// calls for one order exclude each other, in this process and in all others, while a call that is
/// made under the lock, however deep, re-enters it. The function keeps its signature and stays
/// `async`; it may call itself without a `Box`, and its future is `Send` if the body is. What may
/// surprise:
///
/// - The key is computed first, from the arguments as they were passed; what the body does to them
///   later changes nothing. An expression that fails with `?` fails the call before the lock.
/// - Without `locks = …` the lock is taken on the `Locks` of the enclosing `Locks::scope`, or else
///   on the installed one. There is no silent lock within the process: without either the call
///   fails. A spawned task leaves the scope.
/// - The function must return a `Result<_, E>` (or an alias of it) with `E: From<LockError>`.
/// - A key is nobody's own: two functions with the same template share their locks.
///
/// # The key
///
/// A template is text with expressions in braces, each of which is formatted with `Display`. They
/// may be any Rust: `{id}`, `{order.id}`, `{self.tenant}`, `{ids[0]}`, `{order.key()}`,
/// `{u64::from(id)}`. Write `{{` and `}}` for braces, as in the hash tag `{{user:{id}}}`. The first
/// single `:` outside brackets begins a format spec as in [`format!`]: `{id:08}`, `{name:?}`; width
/// and precision are numbers, and the fill is no colon.
///
/// A template must name an argument, since otherwise all calls would share one lock. A name that
/// begins with a lower-case letter has to be that of an argument; a constant may stand beside it,
/// as in `{id}:{SHARDS}`. If one lock for all calls is wanted, or if the key is computed elsewhere,
/// say `key = …` with anything that is `AsRef<str>`: `key = "nightly"`, `key = self.name`. Nothing is
/// filled in there, so a literal with `{name}` in it is refused; put a hash tag into a constant.
///
/// # Arguments
///
/// | argument | value | default |
/// |---|---|---|
/// | `locks` | an expression of the type `Locks`, `&Locks`, or `Arc<Locks>`: the one to use | the one in scope, else the installed one |
/// | `ttl` | how long the lock outlives a holder that died | the `Locks`' own, 30 s if not set |
/// | `wait` | how long to wait for the lock; also `"none"` and `"forever"` | the `Locks`' own, 60 s if not set |
/// | `max_hold` | how long the lock may be held at most | no limit |
/// | `on_lost` | an `OnLost`: what happens to the body when the lock is lost | the `Locks`' own, `Abort` if not set |
/// | `reentrancy` | a `Reentrancy`: whether an enclosing holder is re-entered | the `Locks`' own, `Allow` if not set |
/// | `depth_sync` | a `DepthSync`: whether a nested entry and its exit wait for the store | the `Locks`' own, `Awaited` if not set |
///
/// A duration is a whole number and a unit in quotes, or several with the greatest unit first:
/// `"250ms"`, `"10s"`, `"1m30s"`, `"2h"`, `"1d"`, checked when the function is compiled; or any
/// expression of type `Duration`. On a re-entry the outermost call's `max_hold` and `on_lost` rule,
/// and a `ttl` can lengthen the lease, never shorten it.
///
/// # Other attributes
///
/// It works on free functions, on methods, in traits, and under `#[async_trait]`, also beside
/// attributes such as `#[tracing::instrument]`. It goes on the implementation of a method, not on a
/// declaration without a body. Attributes that make a function synchronous, such as
/// `#[tokio::main]`, have to stand below it. Of two `#[locked]` the lower one is taken first.
///
/// A function that is not `async` itself is accepted if it ends in an `async` block, in `Box::pin`
/// or not; then the key may name its arguments.
///
/// # Errors
///
/// The function's own, and every `LockError` of `Locks::with_lock`, converted with `From`; also
/// `LockError::NoLocks` where no `Locks` is to be found.
///
/// # Cancel safety
///
/// Dropping the future of a call is the same as dropping that of `Locks::with_lock`: while it
/// waits, the place in the queue is lost; while the body runs, the body is dropped and the lock is
/// released in the background.
///
/// # Examples
///
/// ```
/// use reentry::{LockError, Locks, OnLost, locked};
///
/// struct Shop {
///     name: String,
///     locks: Locks,
/// }
///
/// impl Shop {
///     #[locked("shop:{self.name}:order:{id}", locks = self.locks, ttl = "10s", wait = "2s")]
///     async fn ship(&self, id: u64) -> Result<u64, LockError> {
///         // The same lock: it is re-entered.
///         self.pay(id).await
///     }
///
///     #[locked(
///         "shop:{self.name}:order:{id}",
///         locks = self.locks,
///         max_hold = "1m",
///         on_lost = OnLost::KeepRunning
///     )]
///     async fn pay(&self, id: u64) -> Result<u64, LockError> {
///         Ok(id)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// let shop = Shop { name: "corner".to_owned(), locks: Locks::in_memory() };
/// assert_eq!(shop.ship(42).await?, 42);
/// # Ok(())
/// # }
/// ```
///
/// A recursive function, on the `Locks` in scope:
///
/// ```
/// use reentry::{LockError, Locks, held, locked};
///
/// #[locked("tree:{root}")]
/// async fn depth(root: u32, below: u32) -> Result<u32, LockError> {
///     if below > 0 {
///         return depth(root, below - 1).await;
///     }
///     Ok(held("tree:1").map_or(0, |held| held.depth()))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// assert_eq!(Locks::in_memory().scope(depth(1, 4)).await?, 5);
/// # Ok(())
/// # }
/// ```
#[proc_macro_attribute]
pub fn locked(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::locked(arguments.into(), item.into()).into()
}
