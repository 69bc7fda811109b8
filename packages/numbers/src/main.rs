//! The package `numbers`.
#![cfg_attr(freestanding, no_std, no_main)]
#![forbid(unsafe_code)]

nile_user::package! {
    name: "numbers",
    uses: ["pool"],
    main: nile_numbers::main,
}
