//! The package `threads`.
#![cfg_attr(freestanding, no_std, no_main)]
#![forbid(unsafe_code)]

nile_user::package! {
    name: "threads",
    main: nile_threads::main,
}
