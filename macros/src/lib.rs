//! The attribute `#[locked]` of the crate [`reentry`](https://docs.rs/reentry), which re-exports it. Use it from there,
//! because its expansion calls `reentry`. The tests of `reentry` run the examples.

mod args;
mod boxed;
mod duration;
mod emit;
mod errors;
mod expand;
mod function;
mod key;
mod names;
mod scan;
mod template;
mod unbound;

use proc_macro::TokenStream;

#[doc = include_str!("locked.md")]
#[proc_macro_attribute]
pub fn locked(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::locked(arguments.into(), item.into()).into()
}
