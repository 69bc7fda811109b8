//! The source tree: every file that git tracks or would track, and Rust files as tokens.

use std::fs;
use std::path::Path;
use std::process::Command;

use ra_ap_rustc_lexer::{FrontmatterAllowed, tokenize};

pub use ra_ap_rustc_lexer::TokenKind;

/// A text file of the tree.
pub struct Source {
    /// Its path from the root of the tree.
    pub path: String,
    pub text: String,
}

/// A token of a Rust file; comments are tokens, white space is not.
#[derive(Clone, Copy)]
pub struct Token<'a> {
    pub kind: TokenKind,
    pub text: &'a str,
    /// The line that it begins on, counted from one.
    pub line: usize,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Source {
        Source { path: path.into(), text: text.into() }
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The lines, counted from one.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    pub fn tokens(&self) -> Vec<Token<'_>> {
        let (mut rest, mut line) = (self.text.as_str(), 1);
        let mut tokens = Vec::new();
        for token in tokenize(&self.text, FrontmatterAllowed::No) {
            let (text, after) = rest.split_at(token.len as usize);
            if token.kind != TokenKind::Whitespace {
                tokens.push(Token { kind: token.kind, text, line });
            }
            line += text.matches('\n').count();
            rest = after;
        }
        tokens
    }

    /// The tokens without the comments.
    pub fn code(&self) -> Vec<Token<'_>> {
        let mut tokens = self.tokens();
        tokens.retain(|token| !token.is_comment());
        tokens
    }

    /// One violation, in the form in which editors find the place.
    pub fn violation(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path)
    }
}

impl Token<'_> {
    pub fn is_comment(&self) -> bool {
        matches!(self.kind, TokenKind::LineComment { .. } | TokenKind::BlockComment { .. })
    }
}

/// Where in `tokens` these words and signs follow each other.
pub fn places(tokens: &[Token<'_>], pattern: &[&str]) -> Vec<usize> {
    let matches =
        |window: &[Token<'_>]| window.iter().map(|it| it.text).eq(pattern.iter().copied());
    (0..)
        .zip(tokens.windows(pattern.len()))
        .filter(|(_, it)| matches(it))
        .map(|(at, _)| at)
        .collect()
}

/// Every text file of the tree this test was built in. What is not UTF-8 and the fuzzer's inputs
/// are no source.
pub fn tree() -> Vec<Source> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut paths = tracked(root).unwrap_or_else(|| {
        let mut paths = Vec::new();
        walk(root, "", &mut paths);
        paths
    });
    paths.sort();
    paths.retain(|path| !path.starts_with("fuzz/corpus/"));
    let read =
        |path: String| Some(Source { text: fs::read_to_string(root.join(&path)).ok()?, path });
    paths.into_iter().filter_map(read).collect()
}

/// What git tracks, and what it does not yet track and has not been told to ignore; `None` where
/// the tree is no checkout.
fn tracked(root: &Path) -> Option<Vec<String>> {
    let mut git = Command::new("git");
    git.arg("-C").arg(root);
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = git.output().ok().filter(|output| output.status.success())?;
    let listed = String::from_utf8(listed.stdout).ok()?;
    Some(listed.split_terminator('\0').map(str::to_string).collect())
}

/// The paths of all files below `folder`, but for what builds leave.
fn walk(root: &Path, folder: &str, paths: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(root.join(folder)) else { return };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        match entry.file_type() {
            Ok(kind) if kind.is_file() => paths.push(path),
            Ok(kind) if kind.is_dir() && name != "target" && name != ".git" => {
                walk(root, &path, paths);
            }
            _ => {}
        }
    }
}

#[test]
fn a_walk_finds_what_git_tracks() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut walked = Vec::new();
    walk(root, "", &mut walked);
    assert!(walked.contains(&"tools/tidy/source.rs".to_string()));
    assert!(walked.iter().all(|path| !path.starts_with(".git/") && !path.starts_with("target/")));
    for path in tracked(root).unwrap_or_default() {
        assert!(walked.contains(&path) || !root.join(&path).is_file(), "{path}");
    }
}

#[test]
fn tokens_have_their_lines_and_strings_hide_nothing() {
    let source = Source::new("a.rs", "fn a() {\n    // b\n    \"mod c; \\\" unsafe\"\n}\n");
    let tokens: Vec<_> = source.tokens().iter().map(|it| (it.text, it.line)).collect();
    assert_eq!(tokens[0], ("fn", 1));
    assert_eq!(tokens[5..], [("// b", 2), ("\"mod c; \\\" unsafe\"", 3), ("}", 4)]);
    assert_eq!(places(&source.code(), &["(", ")"]), [2]);
}
