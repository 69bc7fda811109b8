//! The package `relay`.
#![cfg_attr(freestanding, no_std, no_main)]
#![forbid(unsafe_code)]

nile_user::package! {
    name: "relay",
    publishes: ["sockets"],
    uses: ["frames"],
    keeps: ["connections 9558048", "rules 65560", "lease 224"],
    answers: 2,
    main: nile_relay::main,
}
