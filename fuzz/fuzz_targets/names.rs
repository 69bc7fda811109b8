//! Fuzzes [`nile_fuzz::names()`].
#![cfg_attr(fuzzing, no_main)]

nile_fuzz::target!(nile_fuzz::names);
