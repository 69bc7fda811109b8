//! The package `fetch`.
#![cfg_attr(freestanding, no_std, no_main)]
#![forbid(unsafe_code)]

nile_user::package! {
    name: "fetch",
    publishes: ["sockets"],
    uses: ["frames"],
    keeps: ["connections 304672"],
    main: nile_fetch::main,
}
