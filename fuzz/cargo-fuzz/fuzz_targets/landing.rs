#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| onus_fuzz::targets::landing(bytes));
