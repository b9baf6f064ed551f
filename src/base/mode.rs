//! Whether a lock has one holder or several.

/// How a hold has its lock: alone, or together with other readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// No other call graph has it, in whichever mode: a writer.
    #[default]
    Exclusive,
    /// Any number of call graphs have it together, and none has it exclusively: a reader.
    Shared,
}
