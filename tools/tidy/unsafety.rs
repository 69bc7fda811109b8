//! Unsafe code: in a few crates that are named here, and never without a reason.

use crate::source::{Source, Token, TokenKind, places};

/// Where unsafe code may stand.
const ISLANDS: [&str; 8] = [
    "crates/ring/",
    "crates/user/",
    "crates/platform-x86_64/",
    "crates/platform-hosted/",
    "images/bare/",
    "images/bare-scenarios/",
    "packages/unruly/",
    // Maps memory and files, as programs that are tuned by hand do.
    "benches/sort-reference/",
];

fn is_island(source: &Source) -> bool {
    ISLANDS.iter().any(|island| source.path.starts_with(island))
}

/// Unsafe code outside its islands.
pub fn outside_islands(tree: &[Source]) -> Vec<String> {
    let others = tree.iter().filter(|source| source.is_rust() && !is_island(source));
    let found = others.flat_map(|source| {
        let code = source.code();
        let places = places(&code, &["unsafe"]);
        places
            .into_iter()
            .map(|at| source.violation(code[at].line, "unsafe code"))
            .collect::<Vec<_>>()
    });
    found.collect()
}

/// Crates that are no island and do not forbid unsafe code.
pub fn not_forbidden(tree: &[Source]) -> Vec<String> {
    const FORBID: [&str; 8] = ["#", "!", "[", "forbid", "(", "unsafe_code", ")", "]"];
    let is_root = |path: &str| path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    let roots = tree.iter().filter(|source| is_root(&source.path) && !is_island(source));
    roots
        .filter(|source| places(&source.code(), &FORBID).is_empty())
        .map(|source| source.violation(1, "no forbid(unsafe_code)"))
        .collect()
}

/// Unsafe blocks and implementations without a comment directly above that says why they are
/// sound.
pub fn unexplained(tree: &[Source]) -> Vec<String> {
    let rust = tree.iter().filter(|source| source.is_rust());
    let found = rust.flat_map(|source| {
        let tokens = source.tokens();
        let starts = [places(&tokens, &["unsafe", "{"]), places(&tokens, &["unsafe", "impl"])];
        let unexplained = starts.concat().into_iter().filter(|at| !is_explained(&tokens[..*at]));
        unexplained
            .map(|at| source.violation(tokens[at].line, "no SAFETY comment"))
            .collect::<Vec<_>>()
    });
    found.collect()
}

/// Whether `before` an unsafe block, with nothing between but the beginning of its statement,
/// stands a SAFETY comment.
fn is_explained(before: &[Token<'_>]) -> bool {
    let mut nested = 0;
    for token in before.iter().rev() {
        match token.kind {
            _ if token.text.starts_with("// SAFETY:") => return true,
            TokenKind::CloseParen | TokenKind::CloseBracket => nested += 1,
            TokenKind::OpenParen | TokenKind::OpenBracket => nested = (nested - 1).max(0),
            TokenKind::Semi | TokenKind::OpenBrace | TokenKind::CloseBrace if nested == 0 => {
                return false;
            }
            _ => {}
        }
    }
    false
}

mod tests {
    use super::*;
    use crate::violations;

    #[test]
    fn unsafe_code_outside_its_islands_is_rejected() {
        let code = "fn a() { unsafe { b() } }";
        assert_eq!(violations(outside_islands, &[("crates/ring/src/a.rs", code)]), 0);
        assert_eq!(violations(outside_islands, &[("crates/kernel/src/a.rs", code)]), 1);
        assert_eq!(violations(outside_islands, &[("images/hosted/src/main.rs", code)]), 1);
        let words = "// unsafe\n#![forbid(unsafe_code)]\nconst A: &str = \"unsafe { }\";";
        assert_eq!(violations(outside_islands, &[("crates/kernel/src/a.rs", words)]), 0);
    }

    #[test]
    fn a_crate_that_does_not_forbid_unsafe_code_is_rejected() {
        let open = "//! A crate. `#![forbid(unsafe_code)]` is only mentioned.\n";
        let closed = "#![forbid(unsafe_code)]\n";
        assert_eq!(violations(not_forbidden, &[("crates/abi/src/lib.rs", open)]), 1);
        assert_eq!(violations(not_forbidden, &[("crates/abi/src/lib.rs", closed)]), 0);
        assert_eq!(violations(not_forbidden, &[("crates/ring/src/lib.rs", open)]), 0);
    }

    #[test]
    fn an_unsafe_block_without_its_reason_is_rejected() {
        for code in [
            "fn a() { unsafe { b() } }",
            "unsafe impl Send for A {}",
            "// SAFETY: for the first.\nlet a = unsafe { b() };\nlet c = unsafe { d() };",
            "// Safe enough.\nlet a = unsafe { b() };",
        ] {
            assert_eq!(violations(unexplained, &[("a.rs", code)]), 1, "{code}");
        }
        for code in [
            "// SAFETY: b.\nunsafe impl Send for A {}",
            "// SAFETY: two\n// lines.\nlet a: [u8; 4] = c(d(), unsafe { b() });",
            "match a {\n// SAFETY: b.\nA => unsafe { b() }\n}",
            "unsafe fn a() {}",
        ] {
            assert_eq!(violations(unexplained, &[("a.rs", code)]), 0, "{code}");
        }
    }
}
