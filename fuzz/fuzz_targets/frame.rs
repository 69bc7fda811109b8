//! Fuzzes [`nile_fuzz::frame()`].
#![cfg_attr(fuzzing, no_main)]

nile_fuzz::target!(nile_fuzz::frame);
