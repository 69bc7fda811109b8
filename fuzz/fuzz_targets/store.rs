//! Fuzzes [`nile_fuzz::store()`].
#![cfg_attr(fuzzing, no_main)]

nile_fuzz::target!(nile_fuzz::store);
