//! Fuzzes [`nile_fuzz::channel()`].
#![cfg_attr(fuzzing, no_main)]

nile_fuzz::target!(nile_fuzz::channel);
