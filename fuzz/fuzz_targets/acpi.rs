//! Fuzzes [`nile_fuzz::acpi()`].
#![cfg_attr(fuzzing, no_main)]

nile_fuzz::target!(nile_fuzz::acpi);
