//! What the server replies to the scripts.

#![no_main]

libfuzzer_sys::fuzz_target!(|wire: &[u8]| reentry::__fuzz::reply(wire));
