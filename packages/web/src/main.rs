//! The package `web`.
#![cfg_attr(freestanding, no_std, no_main)]
#![forbid(unsafe_code)]

nile_user::package! {
    name: "web",
    publishes: ["sockets"],
    uses: ["frames"],
    keeps: ["connections 9556000", "rules 65560", "lease 112"],
    answers: 2,
    main: nile_web::main,
}
