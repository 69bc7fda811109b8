//! The guides `docs/write-a-service.md`, `docs/write-a-policy.md` and `docs/write-a-job.md` work
//! word by word: their files and commands, in a copy of the source tree.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the guide has its reader do, and what he is to see.
#[derive(PartialEq, Eq, Debug)]
enum Step {
    /// A file of this name with this content.
    Write(String, String),
    /// Commands for a shell.
    Run(String),
    /// Lines that the last commands print something of.
    See(String),
}

/// The guide's blocks of code, in order.
fn steps(guide: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = guide.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else { continue };
        let block = lines.by_ref().take_while(|line| *line != "```");
        let text = block.flat_map(|line| [line, "\n"]).collect();
        steps.push(match kind.split_once(' ') {
            Some(("rust" | "toml", file)) => Step::Write(file.into(), text),
            None if kind == "sh" => Step::Run(text),
            None if kind == "text" => Step::See(text),
            _ => panic!("a block of the guide is `{kind}`, which this test does not know"),
        });
    }
    steps
}

/// The source tree at `copy`: everything as it is, but folders of services and jobs of its own.
fn copy_tree(root: &Path, copy: &Path) {
    if copy.exists() {
        fs::remove_dir_all(copy).unwrap();
    }
    fs::create_dir_all(copy.join("services/tests")).unwrap();
    let skipped = ["services", "jobs", "target", "Cargo.lock", ".git"];
    link(root, copy, &skipped);
    fs::create_dir(copy.join("jobs")).unwrap();
    link(&root.join("jobs"), &copy.join("jobs"), &["letters", "least"]);
    fs::copy(root.join("Cargo.lock"), copy.join("Cargo.lock")).unwrap();
    link(
        &root.join("services"),
        &copy.join("services"),
        &["tests", "greeter", "shouter", "shortest"],
    );
    let tests = ["greeter.rs", "shouter.rs", "shortest.rs", "guide.rs"];
    link(&root.join("services/tests"), &copy.join("services/tests"), &tests);
}

/// Links to everything in a folder but what is `skipped`.
fn link(from: &Path, to: &Path, skipped: &[&str]) {
    for entry in fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name();
        if !skipped.iter().any(|skipped| name == *skipped) {
            symlink(from.join(&name), to.join(&name)).unwrap();
        }
    }
}

#[test]
fn the_guides_work_word_by_word() {
    take_what_is_built();
    // One after the other, with one folder of what is built for all.
    assert_eq!(follow("write-a-service"), (4, 5), "the guide has changed: is it still tested?");
    assert_eq!(follow("write-a-policy"), (5, 4), "the guide has changed: is it still tested?");
    assert_eq!(follow("write-a-job"), (4, 2), "the guide has changed: is it still tested?");
}

/// Begins the guides' folder of what is built with the libraries that this program was built with:
/// Cargo knows them by their place in the source tree, and builds what the guides change. They are
/// links, and replaced rather than written to; what Cargo notes about them is copied.
fn take_what_is_built() {
    let program = std::env::current_exe().unwrap();
    let built = program.ancestors().nth(2).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guide-target");
    const TAKE: &str = r#"
        rm -rf "$2"
        mkdir -p "$2/debug/deps"
        cp -a "$1/.fingerprint" "$1/build" "$2/debug"
        find "$1/deps" -name 'lib*' ! -name '*.d' -exec ln -t "$2/debug/deps" {} +
    "#;
    let taken = Command::new("sh").args(["-ec", TAKE, "sh"]).args([built, &target]).status();
    assert!(taken.unwrap().success(), "cannot take what lies in {}", built.display());
}

/// Does what a guide says, and gives how many files it has written and commands it has run.
fn follow(guide: &str) -> (usize, usize) {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let scratch = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (copy, target) = (scratch.join("guide"), scratch.join("guide-target"));
    copy_tree(&root, &copy);
    let guide = fs::read_to_string(root.join(format!("docs/{guide}.md"))).unwrap();
    let (mut seen, mut written, mut ran) = (String::new(), 0, 0);
    for step in steps(&guide) {
        match step {
            Step::Write(file, content) => {
                let path = copy.join(file);
                assert!(!path.exists(), "the guide edits a file: {}", path.display());
                fs::write(path, content).unwrap();
                written += 1;
            }
            Step::Run(commands) => {
                let mut shell = Command::new("sh");
                shell.args(["-ec", &commands]).current_dir(&copy);
                shell.env("CARGO_TARGET_DIR", &target);
                shell.env("CARGO_NET_OFFLINE", "true");
                let output = shell.output().unwrap();
                seen = String::from_utf8_lossy(&output.stdout).into_owned();
                let errors = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{commands}\n{seen}\n{errors}");
                ran += 1;
            }
            Step::See(lines) => {
                for line in lines.lines() {
                    assert!(seen.contains(line), "no `{line}` in:\n{seen}");
                }
            }
        }
    }
    (written, ran)
}

#[test]
fn blocks_are_found() {
    let guide = "a\n```rust b/c.rs\nfn d() {}\n```\n\n```sh\ne\nf\n```\n```text\ng\n```\n\
                 ```toml h\n```\n";
    let expected = [
        Step::Write("b/c.rs".into(), "fn d() {}\n".into()),
        Step::Run("e\nf\n".into()),
        Step::See("g\n".into()),
        Step::Write("h".into(), String::new()),
    ];
    assert_eq!(steps(guide), expected);
}
