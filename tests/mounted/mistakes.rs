//! What `#[locked]` says about mistakes, and where. `tests/ui` has what the compiler says about the expansion.
//!
//! Mounted by `tests/attribute.rs`.

use proc_macro2::{Delimiter, LineColumn, TokenStream, TokenTree};

use crate::expand;

/// The function below the attribute, if a line has none.
const FUNCTION: &str = "async fn ship(id: u64, name: &str) -> Result<u64, LockError> { Ok(id) }";

/// The arguments of the attribute, and below them each place with its message. A message without a place is for the
/// whole attribute.
const MISTAKES: &str = r##"
// Arguments.
("order:{id}", tll = "10s")
               ^^^ unknown argument `tll`: did you mean `ttl`?
("order:{id}", colour = "red")
               ^^^^^^ unknown argument `colour`: the arguments are `key`, `locks`, `held`, `ttl`, `wait`, `max_hold`, `min_hold`, `on_lost`, `crate`
("order:{id}", lease = "10s", timeout = "1s", expires = "10s", lock_timeout = "1s")
               ^^^^^ unknown argument `lease`: did you mean `ttl`?
                              ^^^^^^^ unknown argument `timeout`: did you mean `wait`?
                                              ^^^^^^^ unknown argument `expires`: did you mean `ttl`?
                                                               ^^^^^^^^^^^^ unknown argument `lock_timeout`: did you mean `wait`?
("order:{id}", lock = locks, hold = "1m", lost = OnLost::Abort)
               ^^^^ unknown argument `lock`: did you mean `locks`?
                             ^^^^ unknown argument `hold`: did you mean `max_hold`?
                                          ^^^^ unknown argument `lost`: did you mean `on_lost`?
("order:{id}", ttl = "10s", wait = "1s", ttl = "20s")
                                         ^^^ `ttl` is given twice
("order:{id}", ttl)
               ^^^ `ttl` needs a value: `ttl = …`
("order:{id}", ttl("10s"))
               ^^^ `ttl` needs a value: `ttl = …`
("order:{id}", ttl = )
               ^^^ `ttl` needs a value: `ttl = …`
("order:{id}" ttl = "10s")
              ^^^ expected `,`
("order:{id}", crate = "reentry")
                       ^^^^^^^^^ `crate` takes the path of the crate `reentry`, without quotes: `crate = company::reentry`
("order:{id}", crate = reentry::Locks::in_memory())
                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^ `crate` takes the path of the crate `reentry`, without quotes: `crate = company::reentry`
("order:{id}", crate = <reentry::Locks>::held)
                       ^^^^^^^^^^^^^^^^^^^^^^ `crate` takes the path of the crate `reentry`, without quotes: `crate = company::reentry`
("order:{id}", crate)
               ^^^^^ `crate` needs a value: `crate = …`
("order:{id}", crate = reentry, crate = ::reentry)
                                ^^^^^ `crate` is given twice
("order:{id}", held = "lock")
                      ^^^^^^ `held` takes a name for the lock in the body: `held = lock`
("order:{id}", held = self.lock)
                      ^^^^^^^^^ `held` takes a name for the lock in the body: `held = lock`
("order:{id}", held)
               ^^^^ `held` needs a value: `held = …`
("order:{id}", "order:{name}", held = lock)
                                      ^^^^ `held` requires a single key: use `reentry::held(…)` in the body for several keys
("order:{id}", read = true)
               ^^^^ `read` takes no value: write `read` alone to share the lock
("order:{id}", read, read)
                     ^^^^ `read` is given twice
// Durations.
("order:{id}", ttl = "10")
                     ^^^^ `10` is not a duration: write whole numbers with units, the greatest unit first: `250ms`, `10s`, `1m30s`, `2h` or `1d`
("order:{id}", wait = "soon")
                      ^^^^^^ `soon` is not a duration: write whole numbers with units, the greatest unit first: `250ms`, `10s`, `1m30s`, `2h` or `1d`; `none` and `forever` are also accepted
("order:{id}", ttl = 10)
                     ^^ a duration needs a unit: `ttl = "10s"`
("order:{id}", ttl = "0s")
                     ^^^^ a `ttl` of zero would lose the lock immediately
("order:{id}", max_hold = "forever")
                          ^^^^^^^^^ `forever` is not a duration: write whole numbers with units, the greatest unit first: `250ms`, `10s`, `1m30s`, `2h` or `1d`
("order:{id}", max_hold = "99999999999999999999h")
                          ^^^^^^^^^^^^^^^^^^^^^^^ `99999999999999999999h` is too long
// The key.
()
`#[locked]` needs a key: a template such as `"order:{id}"`, or `key = …`
(ttl = "10s")
`#[locked]` needs a key: a template such as `"order:{id}"`, or `key = …`
("order:{id}", key = "order")
               ^^^ the key is given twice: write either key templates or one `key = …`
(key = "order", "order:{id}")
                ^^^^^^^^^^^^ the key is given twice: write either key templates or one `key = …`
(key = "order", key = "customer")
                ^^^ the key is given twice: write either key templates or one `key = …`
("order:{id}", "order:{id}")
               ^^^^^^^^^^^^ this key template is given twice: remove one of them
(id)
 ^^ expected a key template such as `"order:{id}"`, or an argument such as `ttl = "10s"`; write any other expression for the key as `key = …`
(format!("order:{id}"))
 ^^^^^^ expected a key template such as `"order:{id}"`, or an argument such as `ttl = "10s"`; write any other expression for the key as `key = …`
(42)
 ^^ expected a key template such as `"order:{id}"`, or an argument such as `ttl = "10s"`; write any other expression for the key as `key = …`
(key = "order:{id}")
               ^^ `key = …` does not replace `{id}`, so all calls would share one lock; remove `key =` to make it a template, or put the text into a `const` if the braces belong to the key
(key = "order:{order_id}")
               ^^^^^^^^ `key = …` does not replace `{order_id}`, so all calls would share one lock; remove `key =` to make it a template, or put the text into a `const` if the braces belong to the key
(key = &"order:{id.max(1)}".to_owned())
                ^^^^^^^^^ `key = …` does not replace `{id.max(1)}`, so all calls would share one lock; remove `key =` to make it a template, or put the text into a `const` if the braces belong to the key
(key = "order:{ORDER:08}")
               ^^^^^ `key = …` does not replace `{ORDER}`, so all calls would share one lock; remove `key =` to make it a template, or put the text into a `const` if the braces belong to the key
(key = "order:{type}") async fn keyword(r#type: &str) -> Result<usize, LockError> { Ok(r#type.len()) }
               ^^^^ `key = …` does not replace `{type}`, so all calls would share one lock; remove `key =` to make it a template, or put the text into a `const` if the braces belong to the key
// Hash tags of Redis Cluster, and texts that are taken apart elsewhere.
(key = NIGHTLY)
(key = "jobs:{7}")
(key = "order:{id}".replace("{id}", &id.to_string()))
// Templates.
("account:{id}", "account:{nam}")
                           ^^^ no argument `nam`; did you mean `name`?
("account:{id}", "audit")
                 ^^^^^^^ this key template names no argument, so all calls would share one lock; if that is intended, acquire that lock in the body with `Locks::with_lock`
("account:{id", "account:{idd}", ttl = "10")
          ^^^ unclosed `{` in the key template; write `{{` for a brace
                          ^^^ no argument `idd`; did you mean `id`?
                                       ^^^^ `10` is not a duration: write whole numbers with units, the greatest unit first: `250ms`, `10s`, `1m30s`, `2h` or `1d`
("order:{order_id}")
         ^^^^^^^^ no argument `order_id`; did you mean `id`?
("order:{nmae.len()}:{lines[0]}")
         ^^^^^^^^^^ no argument `nmae`; did you mean `name`?
                      ^^^^^^^^ no argument `lines`; the arguments are `id`, `name`
("order:{id}:{tenant}")
              ^^^^^^ no argument `tenant`; the arguments are `id`, `name`
("order:{id}") async fn none() -> Result<u64, LockError> { Ok(0) }
         ^^ no argument `id`; the function has none
("order:{self.id}") async fn no_method(id: u64) -> Result<u64, LockError> { Ok(id) }
         ^^^^^^^ no argument `self`; the only one is `id`
("order:{id")
        ^^^ unclosed `{` in the key template; write `{{` for a brace
("order:{id}}")
            ^ unmatched `}` in the key template; write `}}` for a brace
("order:{id.max(1}")
        ^^^^^^^^^^ unclosed `{` in the key template; write `{{` for a brace
("order:{}")
        ^^ empty placeholder in the key template; name an argument in the braces
("order:{id.}")
         ^^^ `id.` in the key template is not an expression: unexpected end of input, expected identifier or integer
("order:{id id}")
         ^^^^^ `id id` in the key template is not an expression: unexpected token
("order:{id = 5}")
         ^^^^^^ `id = 5` in the key template is an assignment
("order:{id:width$}")
           ^^^^^^^ `:width$`: a width or precision in a key template must be a number
("order:{type}")
         ^^^^ `type` in the key template is not an expression: expected an expression
("orders")
 ^^^^^^^^ this key template names no argument, so all calls would share one lock; if that is intended, write `key = "…"`
("orders:{SHARD}")
 ^^^^^^^^^^^^^^^^ this key template names no argument, so all calls would share one lock; if that is intended, write `key = format!(…)`
("orders:{{id}}")
 ^^^^^^^^^^^^^^^ this key template names no argument, so all calls would share one lock; if that is intended, write `key = "…"`
// Functions.
("order:{id}") fn ship(id: u64) -> Result<u64, LockError> { Ok(id) }
               ^^ `#[locked]` requires an `async fn`; if another attribute removes the `async`, as `#[tokio::main]` does, put `#[locked]` above it
("order:{id}") const fn ship(id: u64) -> Result<u64, LockError> { Ok(id) }
                     ^^ `#[locked]` requires an `async fn`; if another attribute removes the `async`, as `#[tokio::main]` does, put `#[locked]` above it
("order:{id}") fn ship(id: u64) -> Shipping<'static> { Box::pin(async move { Ok(id) }) }
                                   ^^^^^^^^^^^^^^^^^ `#[locked]` must see the output type of the future: instead of an alias, write `Pin<Box<dyn Future<Output = …>>>`, `BoxFuture<'_, …>` or `impl Future<Output = …>`
("order:{id}") async fn ship(&self, id: u64) -> Result<u64, LockError>;
                                                                      ^ `#[locked]` requires a function with a body: put it on the implementation
("order:{id}") struct Order { id: u64 }
               ^^^^^^ `#[locked]` requires an `async fn`: expected `fn`
("order:{id}") async fn nothing(id: u64) {}
                        ^^^^^^^ `#[locked]` needs a function that returns `Result<_, E>` with `E: From<LockError>`, because acquiring the lock can fail
("order:{id}") async fn unit(id: u64) -> () {}
                                         ^^ `#[locked]` needs a function that returns `Result<_, E>` with `E: From<LockError>`, because acquiring the lock can fail
("order:{id}") async fn primitive(id: u64) -> u64 { id }
                                              ^^^ `#[locked]` needs a function that returns `Result<_, E>` with `E: From<LockError>`, because acquiring the lock can fail
("order:{id}") async fn tuple(id: u64) -> (u64, u64) { (id, id) }
                                          ^^^^^^^^^^ `#[locked]` needs a function that returns `Result<_, E>` with `E: From<LockError>`, because acquiring the lock can fail
("order:{id}") async fn reference(id: &u64) -> &u64 { id }
                                               ^^^^ `#[locked]` needs a function that returns `Result<_, E>` with `E: From<LockError>`, because acquiring the lock can fail
("order:{id}") async fn opaque(id: u64) -> impl Send { id }
                                           ^^^^^^^^^ `#[locked]` needs a function that returns `Result<_, E>` with `E: From<LockError>`, because acquiring the lock can fail
("order:{id}") async fn option(id: u64) -> Option<u64> { Some(id) }
                                           ^^^^^^^^^^^ `#[locked]` needs a function that returns `Result<_, E>` with `E: From<LockError>`, because acquiring the lock can fail
// As `#[async_trait]` writes them.
("order:{id}", tll = "1s") fn ship<'a>(&'a self, id: u64) -> Pin<Box<dyn Future<Output = u64> + Send + 'a>> { Box::pin(async move { id }) }
                                                                                         ^^^ `#[locked]` needs a function that returns `Result<_, E>` with `E: From<LockError>`, because acquiring the lock can fail
               ^^^ unknown argument `tll`: did you mean `ttl`?
("orders") fn ship(id: u64) -> Pin<Box<dyn Future<Output = Result<u64, E>> + Send>> { Box::pin(async move { Ok(id) }) }
 ^^^^^^^^ this key template names no argument, so all calls would share one lock; if that is intended, write `key = "…"`
"##;

#[test]
fn every_mistake_is_reported_where_it_is_made() {
    let lines = MISTAKES.lines().filter(|line| !line.starts_with("//"));
    let mut lines = lines.skip(1).peekable();
    while let Some(code) = lines.next() {
        let mut expected = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with('(')) {
            expected.push(line);
        }
        assert_eq!(reported(code), expected, "{code}");
    }
}

/// The messages, each below its place in the code.
fn reported(code: &str) -> Vec<String> {
    let function = if code.ends_with(')') { FUNCTION } else { "" };
    let Ok(tokens) = format!("{code}{function}").parse::<TokenStream>() else {
        panic!("no tokens: {code}");
    };
    let mut tokens = tokens.into_iter();
    let Some(TokenTree::Group(arguments)) = tokens.next() else {
        panic!("no arguments: {code}");
    };
    let expanded = expand::locked(arguments.stream(), tokens.collect());
    messages(expanded)
}

/// The arguments of each `::core::compile_error! { … }`.
fn messages(expanded: TokenStream) -> Vec<String> {
    let tokens: Vec<_> = expanded.into_iter().collect();
    let is_error = |it: &TokenTree| it.to_string() == "compile_error";
    let errors = (0..tokens.len()).filter(|&at| is_error(&tokens[at]));
    errors
        .map(|at| {
            let TokenTree::Group(group) = &tokens[at + 2] else {
                panic!("no message: {:?}", tokens[at + 2]);
            };
            assert_eq!(group.delimiter(), Delimiter::Brace);
            let Ok(text) = syn::parse2::<syn::LitStr>(group.stream()) else {
                panic!("no text: {group}");
            };
            let LineColumn { column: from, .. } = tokens[at].span().start();
            let LineColumn { column: to, .. } = group.span().end();
            let (from, marks) = (from.min(to), "^".repeat(to.saturating_sub(from)));
            let place = format!("{}{marks} ", " ".repeat(from));
            let place = if to == 0 { "" } else { &place };
            format!("{place}{}", text.value())
        })
        .collect()
}
