//! The sources of `#[locked]`, mounted: a crate of macros exports nothing else, and outside the compiler
//! its token streams work as well.

#[path = "../../macros/src/args.rs"]
mod args;
#[path = "../../macros/src/boxed.rs"]
mod boxed;
#[path = "../../macros/src/duration.rs"]
mod duration;
#[path = "../../macros/src/emit.rs"]
mod emit;
#[path = "../../macros/src/errors.rs"]
mod errors;
#[path = "../../macros/src/expand.rs"]
mod expand;
#[path = "../../macros/src/function.rs"]
mod function;
#[path = "../../macros/src/key.rs"]
mod key;
#[path = "../../macros/src/names.rs"]
mod names;
#[path = "../../tests/mounted/properties/locked.rs"]
mod properties;
#[path = "../../macros/src/scan.rs"]
mod scan;
#[path = "../../macros/src/template.rs"]
mod template;
#[path = "../../macros/src/unbound.rs"]
mod unbound;

/// More is of no interest, and some hundred nested brackets are too much for any parser's stack.
const LONGEST: usize = 256;

/// A key template.
pub fn template(text: &str) {
    properties::template(text);
}

/// The arguments of the attribute; also a duration among them.
pub fn arguments(text: &str) {
    if text.len() <= LONGEST {
        properties::duration(text);
        properties::arguments(text);
    }
}
