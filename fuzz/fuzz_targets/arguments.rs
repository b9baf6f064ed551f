//! The arguments of `#[locked]`, and the durations among them.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| reentry_fuzz::arguments(text));
