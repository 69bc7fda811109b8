//! The package `buffers`.
#![cfg_attr(freestanding, no_std, no_main)]
#![forbid(unsafe_code)]

nile_user::package! {
    name: "buffers",
    uses: ["pool"],
    main: nile_buffers::main,
}
