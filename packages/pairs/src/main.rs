//! The package `pairs`.
#![cfg_attr(freestanding, no_std, no_main)]
#![forbid(unsafe_code)]

nile_user::package! {
    name: "pairs",
    uses: ["pool"],
    main: nile_pairs::main,
}
