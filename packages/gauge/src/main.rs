//! The package `gauge`.
#![cfg_attr(freestanding, no_std, no_main)]
#![forbid(unsafe_code)]

nile_user::package! {
    name: "gauge",
    uses: ["region rf"],
    main: nile_gauge::main,
}
