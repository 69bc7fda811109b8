//! Fuzzes [`nile_fuzz::bosml_text()`].
#![cfg_attr(fuzzing, no_main)]

nile_fuzz::target!(nile_fuzz::bosml_text);
