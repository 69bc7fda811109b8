//! The package `unsteady`.
#![cfg_attr(freestanding, no_std, no_main)]
#![forbid(unsafe_code)]

nile_user::package! {
    name: "unsteady",
    uses: ["pool"],
    main: nile_unsteady::main,
}
