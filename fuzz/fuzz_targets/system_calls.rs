//! Fuzzes [`nile_fuzz::system_calls()`].
#![cfg_attr(fuzzing, no_main)]

nile_fuzz::target!(nile_fuzz::system_calls);
