//! Hold ids.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| reentry::__fuzz::id(text));
