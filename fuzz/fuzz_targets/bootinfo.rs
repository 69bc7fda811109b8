//! Fuzzes [`nile_fuzz::bootinfo()`].
#![cfg_attr(fuzzing, no_main)]

nile_fuzz::target!(nile_fuzz::bootinfo);
