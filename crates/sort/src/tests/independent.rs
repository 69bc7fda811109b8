//! What the independent check in `tools/check_results.py` says of our outputs.

extern crate std;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{LENGTH, generated, model};
use crate::generator::Format;
use crate::layout::Tera;
use crate::validate::Validator;

/// Writes the files into a fresh folder and runs the check over them. Gives its exit status and
/// what it says, or nothing where there is no Python.
fn check(arguments: &[&str], files: &[&[u8]]) -> Option<(i32, String)> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/check_results.py");
    let folder = tempfile::tempdir().unwrap();
    let write = |(index, bytes): (usize, &&[u8])| {
        let path = folder.path().join(format!("{index}"));
        fs::write(&path, bytes).unwrap();
        path
    };
    let paths: Vec<PathBuf> = files.iter().enumerate().map(write).collect();
    let mut python = Command::new("python3");
    match python.arg(script).args(arguments).args(paths).output() {
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            Some((output.status.code().unwrap(), String::from_utf8(said).unwrap()))
        }
        Err(error) => {
            std::eprintln!("skipped, python3 cannot be started: {error}");
            None
        }
    }
}

#[test]
fn sorted_records_are_found_valid_and_others_are_not() {
    let records = generated(Format::Binary, 20_500);
    let sorted = model(&records);
    let mut validator = Validator::<Tera>::new();
    validator.push(&sorted);
    let ours = validator.finish().unwrap();
    // The second file begins in the middle of a record, as files may.
    let (first, second) = sorted.split_at(1_000_050);
    let Some((status, said)) = check(&["terasort"], &[first, second]) else { return };
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("\"records\": 20500,"), "{said}");
    assert!(said.contains(&format!("\"checksum\": \"{}\"", ours.checksum)), "{said}");
    assert!(said.contains("\"duplicates\": 0,"), "{said}");

    // Two equal records, then one that is less.
    let parts = [&sorted[..LENGTH], &sorted[..2 * LENGTH], &sorted[..LENGTH]];
    let (status, said) = check(&["terasort"], &parts).unwrap();
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("\"unordered\": 1, \"first_unordered\": 3,"), "{said}");
    assert!(said.contains("\"duplicates\": 1,"), "{said}");

    let (status, said) = check(&["terasort"], &[&sorted[..250]]).unwrap();
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("\"records\": 2,") && said.contains("\"cut_bytes\": 50,"), "{said}");
}

#[test]
fn counted_words_are_compared() {
    let text = b"to be or not\n to be\n";
    let (right, wrong) = (b"be\t2\nto\t2\n", b"not\t1\nor\t2\n");
    let Some((status, said)) = check(&["wordcount"], &[text, right, b"or\t1\nnot\t1\n"]) else {
        return;
    };
    assert_eq!((status, said.trim()), (0, r#"{"words": 4, "different": 0, "valid": true}"#));
    let (status, said) = check(&["wordcount"], &[text, right, wrong]).unwrap();
    assert_eq!((status, said.trim()), (1, r#"{"words": 4, "different": 1, "valid": false}"#));
    let (status, said) = check(&["wordcount"], &[text, right]).unwrap();
    assert_eq!((status, said.trim()), (1, r#"{"words": 4, "different": 2, "valid": false}"#));
    assert_eq!(check(&["wordcount"], &[text]).unwrap().0, 2, "nothing to compare with");
}
