//! Fuzzes [`nile_fuzz::handle()`].
#![cfg_attr(fuzzing, no_main)]

nile_fuzz::target!(nile_fuzz::handle);
