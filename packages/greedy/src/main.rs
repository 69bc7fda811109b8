//! The package `greedy`.
#![cfg_attr(freestanding, no_std, no_main)]
#![forbid(unsafe_code)]

nile_user::package! {
    name: "greedy",
    uses: ["pool"],
    main: nile_greedy::main,
}
