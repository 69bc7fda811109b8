//! Fuzzes [`nile_fuzz::relay()`].
#![cfg_attr(fuzzing, no_main)]

nile_fuzz::target!(nile_fuzz::relay);
