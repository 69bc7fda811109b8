//! Fuzzes [`nile_fuzz::switch()`].
#![cfg_attr(fuzzing, no_main)]

nile_fuzz::target!(nile_fuzz::switch);
