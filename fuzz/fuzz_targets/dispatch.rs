//! Fuzzes [`nile_fuzz::dispatch()`].
#![cfg_attr(fuzzing, no_main)]

nile_fuzz::target!(nile_fuzz::dispatch);
