//! Fuzzes [`nile_fuzz::bulk()`].
#![cfg_attr(fuzzing, no_main)]

nile_fuzz::target!(nile_fuzz::bulk);
