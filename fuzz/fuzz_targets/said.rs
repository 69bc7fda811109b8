//! Fuzzes [`nile_fuzz::said()`].
#![cfg_attr(fuzzing, no_main)]

nile_fuzz::target!(nile_fuzz::said);
