//! The package `caller`.
#![cfg_attr(freestanding, no_std, no_main)]
#![forbid(unsafe_code)]

nile_user::package! {
    name: "caller",
    publishes: ["counter", "scheduling"],
    main: nile_caller::main,
}
