//! The names of locks, and the keys beside them.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| reentry::__fuzz::key(text));
