//! Fuzzes [`nile_fuzz::network()`].
#![cfg_attr(fuzzing, no_main)]

nile_fuzz::target!(nile_fuzz::network);
