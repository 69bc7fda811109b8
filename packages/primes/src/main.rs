//! The package `primes`.
#![cfg_attr(freestanding, no_std, no_main)]
#![forbid(unsafe_code)]

nile_user::package! {
    name: "primes",
    uses: ["region primes"],
    main: nile_primes::main,
}
