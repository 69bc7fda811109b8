//! The package `tera`.
#![cfg_attr(freestanding, no_std, no_main)]
#![forbid(unsafe_code)]

nile_user::package! {
    name: "tera",
    uses: ["pool"],
    main: nile_tera::main,
}
