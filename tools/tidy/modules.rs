//! Dead files: Rust that no `mod` leads to, which the compiler never sees and so cannot report.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Source, Token, TokenKind};

/// Rust files that are neither a crate's root nor a module of one.
pub fn unreached(tree: &[Source]) -> Vec<String> {
    let rust = tree.iter().filter(|source| source.is_rust());
    let files: BTreeMap<&str, &Source> =
        rust.map(|source| (source.path.as_str(), source)).collect();
    let mut reached = BTreeSet::new();
    let roots = files.keys().filter(|path| is_root(path)).map(|path| path.to_string());
    let mut next: Vec<(String, bool)> =
        roots.chain(named_roots(tree)).map(|path| (path, true)).collect();
    next.extend(files.keys().filter(|path| is_service(path)).map(|path| (path.to_string(), true)));
    while let Some((path, is_root)) = next.pop() {
        if let Some(source) = files.get(path.as_str())
            && reached.insert(path)
        {
            next.extend(modules(source, is_root).into_iter().map(|path| (path, false)));
        }
    }
    let dead = files.values().filter(|source| !reached.contains(&source.path));
    dead.map(|source| source.violation(1, "no `mod` leads to this file")).collect()
}

/// Whether cargo looks for a crate's root there.
fn is_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        [.., "src", "lib.rs" | "main.rs"] | [.., "build.rs"] => true,
        [.., "src", "bin", _] => true,
        [.., "tests" | "benches" | "examples", _, "main.rs"] => true,
        // A folder `tests` below `src` is a module's.
        [package @ .., "tests" | "benches" | "examples", _] => !package.contains(&"src"),
        _ => false,
    }
}

/// Whether the build script of the services makes a module of it.
fn is_service(path: &str) -> bool {
    matches!(path.split('/').collect::<Vec<_>>().as_slice(), ["services", _, "mod.rs"])
}

/// The roots that manifests name.
fn named_roots(tree: &[Source]) -> impl Iterator<Item = String> {
    let manifests = tree.iter().filter(|source| source.path.ends_with("Cargo.toml"));
    manifests.flat_map(|manifest| {
        let paths = manifest.lines().filter_map(|(_, line)| line.strip_prefix("path = \""));
        paths.map(|path| join(parent(&manifest.path), path.trim_end_matches('"')))
    })
}

/// The files in which `source`'s modules can be.
fn modules(source: &Source, is_root: bool) -> Vec<String> {
    let folder = parent(&source.path);
    let own = match is_root || source.path.ends_with("/mod.rs") {
        true => folder.to_string(),
        false => source.path.trim_end_matches(".rs").to_string(),
    };
    let code = source.code();
    // The names of the blocks that are open; nothing for a block that is no module.
    let mut blocks: Vec<&str> = Vec::new();
    let (mut block, mut path) = ("", None);
    let mut found = Vec::new();
    for (at, token) in code.iter().enumerate() {
        let text = |ahead| code.get(at + ahead).map_or("", |token: &Token<'_>| token.text);
        match token.kind {
            TokenKind::OpenBrace => blocks.push(std::mem::take(&mut block)),
            TokenKind::CloseBrace => drop(blocks.pop()),
            TokenKind::Ident if token.text == "path" && text(1) == "=" => path = Some(text(2)),
            TokenKind::Ident if token.text == "mod" && text(2) == "{" => block = text(1),
            TokenKind::Ident if token.text == "mod" && text(2) == ";" => match path.take() {
                Some(path) => found.push(join(folder, path.trim_matches('"'))),
                None => {
                    let inside = blocks.iter().fold(own.clone(), |own, block| join(&own, block));
                    found.push(join(&inside, &format!("{}.rs", text(1))));
                    found.push(join(&inside, &format!("{}/mod.rs", text(1))));
                }
            },
            _ => {}
        }
    }
    found
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The place that `path` leads to from `folder`.
fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

mod tests {
    use super::*;
    use crate::violations;

    const TREE: [(&str, &str); 12] = [
        ("services/s/mod.rs", "mod state;"),
        ("services/s/state.rs", ""),
        ("a/Cargo.toml", "[[bin]]\npath = \"odd/c.rs\"\n"),
        ("a/src/lib.rs", "pub mod b;\nmod g { mod h; }\n#[path = \"../../z.rs\"]\nmod y;\n"),
        ("a/src/b.rs", "mod c;\nfn f() { { } }\n#[cfg(test)]\nmod tests;\n"),
        ("a/src/b/c.rs", ""),
        ("a/src/b/tests.rs", ""),
        ("a/src/g/h/mod.rs", ""),
        ("z.rs", ""),
        ("a/tests/d.rs", "mod d { pub mod e; }"),
        ("a/tests/d/e.rs", ""),
        ("a/odd/c.rs", ""),
    ];

    #[test]
    fn modules_are_found_wherever_they_may_be() {
        assert_eq!(violations(unreached, &TREE), 0);
    }

    #[test]
    fn a_file_that_no_module_names_is_rejected() {
        for dead in
            ["a/src/c.rs", "a/src/b/d.rs", "a/src/g/i.rs", "a/odd/d.rs", "b.rs", "services/t.rs"]
        {
            let mut tree = TREE.to_vec();
            tree.push((dead, "//! mod dead;"));
            assert_eq!(violations(unreached, &tree), 1, "{dead}");
        }
        let mut tree = TREE.to_vec();
        tree[3].1 = "// pub mod b;\n";
        assert_eq!(violations(unreached, &tree), 5, "what only a dead file names is dead, too");
    }
}
