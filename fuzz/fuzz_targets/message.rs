//! What the inbox is told.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| reentry::__fuzz::message(text));
