//! The package `channels`.
#![cfg_attr(freestanding, no_std, no_main)]
#![forbid(unsafe_code)]

nile_user::package! {
    name: "channels",
    main: nile_channels::main,
}
