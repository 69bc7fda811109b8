//! Fuzzes [`nile_fuzz::memory_map()`].
#![cfg_attr(fuzzing, no_main)]

nile_fuzz::target!(nile_fuzz::memory_map);
