//! The unit tests of `#[locked]`, and its properties for any arguments. The sources of the macro are mounted here,
//! because a crate of macros exports nothing else. Its token streams also work outside the compiler.

#[path = "../macros/src/args.rs"]
mod args;
#[path = "../macros/src/boxed.rs"]
mod boxed;
#[path = "../macros/src/duration.rs"]
mod duration;
#[path = "../macros/src/emit.rs"]
mod emit;
#[path = "../macros/src/errors.rs"]
mod errors;
#[path = "../macros/src/expand.rs"]
mod expand;
#[path = "../macros/src/function.rs"]
mod function;
#[path = "../macros/src/key.rs"]
mod key;
#[path = "mounted/mistakes.rs"]
mod mistakes;
#[path = "../macros/src/names.rs"]
mod names;
#[path = "mounted/properties/locked.rs"]
mod properties;
#[path = "../macros/src/scan.rs"]
mod scan;
#[path = "../macros/src/template.rs"]
mod template;
#[path = "../macros/src/unbound.rs"]
mod unbound;
