//! The package `unruly`.
#![cfg_attr(freestanding, no_std, no_main)]

#[cfg(freestanding)]
mod acts;

nile_user::package! {
    name: "unruly",
    answers: 1,
    main: acts::main,
}
