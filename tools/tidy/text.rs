//! Rules about lines and files as text.

use crate::source::{Source, places};

const MOST_COLUMNS: usize = 100;
const MOST_LINES: usize = 600;

/// Words in a comment that say that something is not done.
const MARKS: [&str; 3] = ["TODO", "FIXME", "XXX"];

/// Code that stands for code: as tokens.
const STUBS: [&[&str]; 5] =
    [&["todo", "!"], &["unimplemented", "!"], &["dbg", "!"], &["dead_code"], &["#", "[", "ignore"]];

/// Folders that exist on one machine and not on the next.
const PLACES: [&str; 4] = ["home", "root", "Users", "work"];

/// Lines of Rust of more than 100 columns.
pub fn long_lines(tree: &[Source]) -> Vec<String> {
    let rust = tree.iter().filter(|source| source.is_rust());
    let lines = rust.flat_map(|source| source.lines().map(move |(at, line)| (source, at, line)));
    lines
        .filter(|(.., line)| line.chars().count() > MOST_COLUMNS)
        .map(|(source, at, _)| source.violation(at, "more than 100 columns"))
        .collect()
}

/// Rust files of more than 600 lines.
pub fn long_files(tree: &[Source]) -> Vec<String> {
    let rust = tree.iter().filter(|source| source.is_rust());
    rust.filter(|source| source.lines().count() > MOST_LINES)
        .map(|source| source.violation(MOST_LINES, "more than 600 lines"))
        .collect()
}

/// Rust files that do not open with a paragraph of documentation.
pub fn unopened_files(tree: &[Source]) -> Vec<String> {
    let rust = tree.iter().filter(|source| source.is_rust());
    rust.filter(|source| !source.text.starts_with("//! "))
        .map(|source| source.violation(1, "does not open with what the file is for"))
        .collect()
}

/// What was meant to be done later and was forgotten.
pub fn stubs(tree: &[Source]) -> Vec<String> {
    tree.iter()
        .flat_map(|source| if source.is_rust() { in_rust(source) } else { in_text(source) })
        .collect()
}

fn in_rust(source: &Source) -> Vec<String> {
    let code = source.code();
    let stubs = STUBS.iter().flat_map(|stub| {
        places(&code, stub).into_iter().map(|at| source.violation(code[at].line, &stub.concat()))
    });
    let tokens = source.tokens();
    let comments = tokens.iter().filter(|token| token.is_comment());
    let marks =
        comments.filter_map(|comment| Some(source.violation(comment.line, mark(comment.text)?)));
    stubs.chain(marks).collect()
}

fn in_text(source: &Source) -> Vec<String> {
    source.lines().filter_map(|(at, line)| Some(source.violation(at, mark(line)?))).collect()
}

fn mark(text: &str) -> Option<&'static str> {
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.find_map(|word| MARKS.into_iter().find(|mark| *mark == word))
}

/// Absolute paths that lead somewhere on one machine only.
pub fn machine_paths(tree: &[Source]) -> Vec<String> {
    let lines =
        tree.iter().flat_map(|source| source.lines().map(move |(at, line)| (source, at, line)));
    lines
        .filter(|(.., line)| PLACES.iter().any(|place| names(line, &format!("/{place}/"))))
        .map(|(source, at, _)| source.violation(at, "a path of one machine"))
        .collect()
}

/// Whether `start` stands in `line` as the beginning of a path and not in the middle of one.
fn names(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"._-*/}~".contains(c))
    })
}

mod tests {
    use super::*;
    use crate::violations;

    #[test]
    fn a_line_of_101_columns_is_rejected() {
        let (fits, long) = ("é".repeat(100), "é".repeat(101));
        assert_eq!(violations(long_lines, &[("a.rs", &fits), ("a.md", &long)]), 0);
        assert_eq!(violations(long_lines, &[("a.rs", &long)]), 1);
    }

    #[test]
    fn a_file_of_601_lines_is_rejected() {
        assert_eq!(violations(long_files, &[("a.rs", &"\n".repeat(600))]), 0);
        assert_eq!(violations(long_files, &[("a.rs", &"\n".repeat(601))]), 1);
    }

    #[test]
    fn a_file_without_an_opening_is_rejected() {
        assert_eq!(violations(unopened_files, &[("a.rs", "//! What it is for.\n")]), 0);
        assert_eq!(violations(unopened_files, &[("a.rs", "// Only a comment.\nuse a;\n")]), 1);
    }

    #[test]
    fn every_kind_of_stub_is_rejected() {
        for stub in [
            "fn a() { todo!() }",
            "fn a() { unimplemented!(\"later\") }",
            "fn a() { dbg!(1); }",
            "#![allow(unused, dead_code)]",
            "#[ignore = \"slow\"]",
            "/// A. TODO: b.",
            "/* FIXME */",
        ] {
            assert_eq!(violations(stubs, &[("a.rs", stub)]), 1, "{stub}");
        }
        assert_eq!(violations(stubs, &[("a.sh", "# XXX later")]), 1);
        assert_eq!(violations(stubs, &[("a.rs", "let todo = \"TODO\"; // 0xXXXX")]), 0);
    }

    #[test]
    fn a_path_of_one_machine_is_rejected() {
        for place in PLACES {
            let path = format!("see /{place}/me/notes");
            assert_eq!(violations(machine_paths, &[("a.md", &path)]), 1, "{path}");
            let inside = format!("a/{place}/b ~/{place}/ ../{place}/");
            assert_eq!(violations(machine_paths, &[("a.md", &inside)]), 0, "{inside}");
        }
    }
}
