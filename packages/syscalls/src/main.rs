//! The package `syscalls`.
#![cfg_attr(freestanding, no_std, no_main)]
#![forbid(unsafe_code)]

nile_user::package! {
    name: "syscalls",
    main: nile_syscalls::main,
}
