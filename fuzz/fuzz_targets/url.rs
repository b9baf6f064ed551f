//! URLs, and the passwords in them.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| reentry::__fuzz::url(text));
