//! The package `fetch`.
#![cfg_attr(freestanding, no_std, no_main)]
#![forbid(unsafe_code)]

nile_user::package! {
    name: "fetch",
    uses: ["frames"],
    main: nile_fetch::main,
}
