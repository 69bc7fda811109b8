//! The package `fwq`.
#![cfg_attr(freestanding, no_std, no_main)]
#![forbid(unsafe_code)]

nile_user::package! {
    name: "fwq",
    uses: ["pool"],
    main: nile_fwq::main,
}
