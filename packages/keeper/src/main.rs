//! The package `keeper`.
#![cfg_attr(freestanding, no_std, no_main)]
#![forbid(unsafe_code)]

nile_user::package! {
    name: "keeper",
    publishes: ["kept"],
    keeps: ["count 2101248"],
    main: nile_keeper::main,
}
