//! Key templates.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| reentry_fuzz::template(text));
