//! Fuzzes [`nile_fuzz::ipioe()`].
#![cfg_attr(fuzzing, no_main)]

nile_fuzz::target!(nile_fuzz::ipioe);
