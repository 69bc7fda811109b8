//! Fuzzes [`nile_fuzz::config()`].
#![cfg_attr(fuzzing, no_main)]

nile_fuzz::target!(nile_fuzz::config);
