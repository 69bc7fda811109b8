//! The package `rf`.
#![cfg_attr(freestanding, no_std, no_main)]
#![forbid(unsafe_code)]

nile_user::package! {
    name: "rf",
    uses: ["region rf"],
    main: nile_rf::main,
}
