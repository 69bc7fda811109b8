//! Rules about documents: that they can be read in any window, that their paragraphs are short,
//! that they say what is and not what was, and that what they name is there.

use std::collections::BTreeSet;

use crate::source::Source;

const MOST_COLUMNS: usize = 100;
const MOST_WORDS: usize = 120;

/// Where figures and changes have their days. Everywhere else a date says that a page tells how
/// something came to be.
const DATED: [&str; 2] = ["CHANGELOG.md", "docs/figures/"];

/// Documents that a newcomer reads from the first line to the last.
const FRONT: [&str; 3] = ["README.md", "ARCHITECTURE.md", "docs/book/"];

/// Folders whose paths documents name.
const ROOTS: [&str; 13] = [
    "benches/",
    "cli/",
    "crates/",
    "dissector/",
    "docs/",
    "fuzz/",
    "images/",
    "jobs/",
    "packages/",
    "scenarios/",
    "services/",
    "simulations/",
    "tools/",
];

fn documents(tree: &[Source]) -> impl Iterator<Item = &Source> {
    tree.iter().filter(|source| source.path.ends_with(".md"))
}

fn begins_with_one_of(path: &str, starts: &[&str]) -> bool {
    starts.iter().any(|start| path.starts_with(start))
}

/// The lines that are prose: neither code nor the fences around it.
fn prose(document: &Source) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    document.lines().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

fn is_table(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

/// Lines of prose of more than 100 columns; tables may be wider, and code is as it is.
pub fn long_lines(tree: &[Source]) -> Vec<String> {
    let lines = documents(tree).flat_map(|it| prose(it).map(move |(at, line)| (it, at, line)));
    lines
        .filter(|(.., line)| line.chars().count() > MOST_COLUMNS && !is_table(line))
        .map(|(document, at, _)| document.violation(at, "more than 100 columns"))
        .collect()
}

/// Paragraphs, and items of lists, of more than 120 words in what a newcomer reads.
pub fn long_paragraphs(tree: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for document in documents(tree).filter(|it| begins_with_one_of(&it.path, &FRONT)) {
        let (mut begin, mut last, mut words) = (0, 0, 0);
        for (at, line) in prose(document) {
            let goes_on = at == last + 1 && !line.trim().is_empty() && !is_item(line);
            if !goes_on || is_table(line) {
                (begin, words) = (at, 0);
            }
            last = at;
            let before = words;
            words += line.split_whitespace().count();
            if before <= MOST_WORDS && words > MOST_WORDS {
                found.push(document.violation(begin, "a paragraph of more than 120 words"));
            }
        }
    }
    found
}

/// Whether a line begins an item of a list.
fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    let after = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with("- ") || line.starts_with("* ") || (after != line && after.starts_with(". "))
}

/// Days of this century where a page should say what is.
pub fn dates(tree: &[Source]) -> Vec<String> {
    let undated = documents(tree).filter(|it| !begins_with_one_of(&it.path, &DATED));
    let lines = undated.flat_map(|it| it.lines().map(move |(at, line)| (it, at, line)));
    lines
        .filter(|(.., line)| has_date(line))
        .map(|(document, at, _)| document.violation(at, "a date"))
        .collect()
}

fn has_date(line: &str) -> bool {
    line.as_bytes().windows(10).any(|it| {
        it.starts_with(b"20")
            && it.iter().enumerate().all(|(at, byte)| match at {
                4 | 7 => *byte == b'-',
                _ => byte.is_ascii_digit(),
            })
    })
}

/// Links within the tree that lead to no file, or to no heading of one.
pub fn dead_links(tree: &[Source]) -> Vec<String> {
    let places = places(tree);
    let mut found = Vec::new();
    for document in documents(tree) {
        for (at, line) in prose(document) {
            for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                if link.contains("://") || link.starts_with("mailto:") {
                    continue;
                }
                let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
                let path = match file {
                    "" => document.path.clone(),
                    _ => beside(&document.path, file),
                };
                let heads = |it: &Source| it.path == path && headings(it).contains(anchor);
                if !places.contains(path.as_str()) {
                    found.push(document.violation(at, &format!("no file at {link}")));
                } else if !anchor.is_empty() && !tree.iter().any(heads) {
                    found.push(document.violation(at, &format!("no heading at {link}")));
                }
            }
        }
    }
    found
}

/// Paths between backticks that are not there. What a guide has its reader make is: it stands
/// behind the language of the code that goes into it.
pub fn missing_paths(tree: &[Source]) -> Vec<String> {
    let places = places(tree);
    let mut found = Vec::new();
    for document in documents(tree) {
        let fences = document.lines().filter_map(|(_, line)| line.strip_prefix("```"));
        let made: Vec<&str> = fences.filter_map(|it| it.split_once(' ')).map(|it| it.1).collect();
        for (at, line) in prose(document) {
            for path in line.split('`').skip(1).step_by(2) {
                let is_path = begins_with_one_of(path, &ROOTS)
                    && path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
                let path = path.trim_end_matches('/');
                let is_made = made.iter().any(|it| it.starts_with(path));
                if is_path && !is_made && !places.contains(path) {
                    found.push(document.violation(at, &format!("no {path}")));
                }
            }
        }
    }
    found
}

/// Tables whose last column is `test`: each of their rows names at least one, as `path:function`
/// between backticks, and each of these is there.
pub fn missing_tests(tree: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for document in documents(tree) {
        let mut is_tested = false;
        for (at, line) in prose(document) {
            let cells: Vec<&str> =
                line.trim().trim_matches('|').split('|').map(str::trim).collect();
            let last = cells.last().copied().unwrap_or_default();
            match is_table(line) {
                false => is_tested = false,
                true if last == "test" => is_tested = true,
                true if !is_tested || last.starts_with("---") => {}
                true => {
                    let named: Vec<&str> = last.split('`').skip(1).step_by(2).collect();
                    if named.is_empty() {
                        found.push(document.violation(at, "a line without a test"));
                    }
                    let missing = named.into_iter().filter(|test| !has_test(tree, test));
                    found.extend(missing.map(|it| document.violation(at, &format!("no {it}"))));
                }
            }
        }
    }
    found
}

/// Whether a file has a function, as `path:function`.
fn has_test(tree: &[Source], test: &str) -> bool {
    let Some((path, name)) = test.split_once(':') else { return false };
    let head = format!("fn {name}(");
    tree.iter().any(|it| it.path == path && it.lines().any(|(_, line)| line.contains(&head)))
}

/// Every file and every folder.
fn places(tree: &[Source]) -> BTreeSet<&str> {
    let mut places = BTreeSet::new();
    for source in tree {
        let folders = source.path.match_indices('/').map(|(at, _)| &source.path[..at]);
        places.extend(folders);
        places.insert(&source.path);
    }
    places
}

/// The place that a link in `document` leads to.
fn beside(document: &str, link: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors of a document's headings, as they are made on pages: small letters, a dash for
/// each blank, and no other signs.
fn headings(document: &Source) -> BTreeSet<String> {
    let heads = prose(document).filter(|(_, line)| line.starts_with('#'));
    heads.map(|(_, line)| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

mod tests {
    use super::*;
    use crate::violations;

    #[test]
    fn a_line_of_prose_of_101_columns_is_rejected() {
        let (fits, long) = ("é".repeat(100), "é".repeat(101));
        assert_eq!(violations(long_lines, &[("a.md", &fits)]), 0);
        assert_eq!(violations(long_lines, &[("a.md", &long)]), 1);
        let exempt = format!("| {long} |\n```text\n{long}\n```\n");
        assert_eq!(violations(long_lines, &[("a.md", &exempt), ("a.txt", &long)]), 0);
        let behind = format!("```text\na\n```\n{long}\n");
        assert_eq!(violations(long_lines, &[("a.md", &behind)]), 1);
    }

    #[test]
    fn a_paragraph_of_121_words_is_rejected_in_what_newcomers_read() {
        let (half, word) = ("word ".repeat(60), "word");
        let (fits, long) = (format!("{half}\n{half}\n"), format!("{half}\n{half}\n{word}\n"));
        for path in ["README.md", "ARCHITECTURE.md", "docs/book/a.md"] {
            assert_eq!(violations(long_paragraphs, &[(path, &fits)]), 0);
            assert_eq!(violations(long_paragraphs, &[(path, &long)]), 1);
        }
        let parted = format!("{half}\n{half}\n\n{word}\n- {half}\n{half}\n1. {half}\n");
        assert_eq!(violations(long_paragraphs, &[("README.md", &parted)]), 1, "a `-` is a word");
        assert_eq!(violations(long_paragraphs, &[("docs/ipioe.md", &long)]), 0);
    }

    #[test]
    fn a_date_outside_of_changes_and_figures_is_rejected() {
        // Put together, so that this file has none.
        let date = format!("measured on {}-11-27", 2026);
        assert_eq!(violations(dates, &[("docs/a.md", &date)]), 1);
        let dated = [("CHANGELOG.md", date.as_str()), ("docs/figures/README.md", date.as_str())];
        assert_eq!(violations(dates, &dated), 0);
        assert_eq!(violations(dates, &[("a.md", "2026-1-27, 1926-11-27, RFC 2026-11")]), 0);
    }

    #[test]
    fn a_link_to_what_is_not_there_is_rejected() {
        let to = |link: &str| {
            let text = format!("# A `b` (x86_64)\n[c]({link})\n");
            let files = [("docs/a.md", text.as_str()), ("README.md", "# One, two\n")];
            violations(dead_links, &files)
        };
        for link in ["../README.md", "../README.md#one-two", "#a-b-x86_64", "https://a.b/#c", ".."]
        {
            assert_eq!(to(link), usize::from(link == ".."), "{link}");
        }
        for link in ["README.md", "../README.md#two", "#b", "b.md"] {
            assert_eq!(to(link), 1, "{link}");
        }
    }

    #[test]
    fn a_line_without_a_test_that_is_there_is_rejected() {
        let row = |test: &str| {
            let text = format!("| who | test |\n| --- | --- |\n| a | {test} |\n");
            violations(missing_tests, &[("a.md", &text), ("a/b.rs", "fn holds() {}\n")])
        };
        assert_eq!(row("`a/b.rs:holds`"), 0);
        for test in ["", "a/b.rs:holds", "`a/b.rs`", "`a/b.rs:hold`", "`a/c.rs:holds`"] {
            assert_eq!(row(test), 1, "{test}");
        }
        assert_eq!(row("`a/b.rs:holds`, `a/b.rs:fails`"), 1);
        assert_eq!(violations(missing_tests, &[("a.md", "| who | why |\n| a | b |\n")]), 0);
    }

    #[test]
    fn a_path_that_is_not_there_is_rejected() {
        let named = |text: &str| {
            let files = [("a.md", text), ("crates/ring/src/lib.rs", "")];
            violations(missing_paths, &files)
        };
        for text in ["`crates/ring`", "`crates/ring/src/lib.rs`", "`a/b` `crates/*`", "docs/b.md"] {
            assert_eq!(named(text), 0, "{text}");
        }
        assert_eq!(named("`crates/rung`"), 1);
        assert_eq!(named("`services/s/` and\n```rust services/s/mod.rs\n```\n`services/t`"), 1);
    }
}
