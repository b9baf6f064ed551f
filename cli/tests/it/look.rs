//! The subcommands that show locks, and end them.

mod disk;
mod doctor;
mod foreign;
mod kit;
mod ls;
mod odd;
mod release;
pub(crate) mod screen;
mod show;
mod watch;
