//! The package `wordcount`.
#![cfg_attr(freestanding, no_std, no_main)]
#![forbid(unsafe_code)]

nile_user::package! {
    name: "wordcount",
    uses: ["pool"],
    main: nile_wordcount::main,
}
