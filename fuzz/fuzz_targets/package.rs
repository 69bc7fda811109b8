//! Fuzzes [`nile_fuzz::package()`].
#![cfg_attr(fuzzing, no_main)]

nile_fuzz::target!(nile_fuzz::package);
