//! The subcommands that show what is there, and end it.

mod columns;
mod doctor;
mod foreign;
mod kit;
mod ls;
mod release;
pub(crate) mod screen;
mod show;
mod watch;
