//! What comes over a serial line, which firmware shares with the kernel.

use serial::{Said, Splitter};

/// The command line program's own source: a program cannot be depended on.
#[path = "../../cli/src/serial.rs"]
mod serial;

/// The bytes as a machine's output, once whole and once in two pieces; the first byte says where
/// the cut is. Accepted: there was a report.
pub fn said(bytes: &[u8]) -> bool {
    let Some((cut, bytes)) = bytes.split_first() else { return false };
    let (head, tail) = bytes.split_at(usize::from(*cut).min(bytes.len()));
    let whole = split(&[bytes]);
    assert_eq!(split(&[head, tail]), whole);
    for said in &whole {
        if let Said::Line(line) = said {
            assert!(line.chars().all(|c| c == '\t' || !c.is_control()));
        }
    }
    whole.iter().any(|said| matches!(said, Said::Report(_)))
}

fn split(chunks: &[&[u8]]) -> Vec<Said> {
    let mut splitter = Splitter::default();
    let mut said: Vec<Said> = chunks.iter().flat_map(|bytes| splitter.feed(bytes)).collect();
    said.extend(splitter.finish());
    said
}
