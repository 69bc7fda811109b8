//! Fuzzes [`nile_fuzz::gossip()`].
#![cfg_attr(fuzzing, no_main)]

nile_fuzz::target!(nile_fuzz::gossip);
