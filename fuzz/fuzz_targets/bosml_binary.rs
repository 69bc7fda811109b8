//! Fuzzes [`nile_fuzz::bosml_binary()`].
#![cfg_attr(fuzzing, no_main)]

nile_fuzz::target!(nile_fuzz::bosml_binary);
