//! The package `hello`.
#![cfg_attr(freestanding, no_std, no_main)]
#![forbid(unsafe_code)]

nile_user::package! {
    name: "hello",
    main: nile_hello::main,
}
