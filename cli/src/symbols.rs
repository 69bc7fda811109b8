//! Backtraces made readable. A kernel prints a frame as `#2 0xffffffff80012345`; here the
//! function, file and line are added from the kernel file that has kept its symbols.

use std::cell::OnceCell;
use std::fmt::Write;
use std::path::PathBuf;

use addr2line::Loader;

/// The symbols of one kernel, read when the first backtrace comes.
pub struct Symbols {
    file: Option<PathBuf>,
    source: Option<PathBuf>,
    loader: OnceCell<Option<Loader>>,
}

impl Symbols {
    /// Symbols from `file`; without it, or if it cannot be read, lines stay as they are. Places
    /// in the source tree at `source` are named from there.
    pub fn new(file: Option<PathBuf>, source: Option<PathBuf>) -> Symbols {
        Symbols { file, source, loader: OnceCell::new() }
    }

    /// The line, with where it points if it is a frame of a backtrace.
    pub fn annotate(&self, line: &str) -> String {
        let mut annotated = line.to_string();
        if let Some((index, address)) = frame(line)
            && let Some(loader) = self.loader()
        {
            // Every frame but the innermost holds a return address: the call is just before it.
            let address = if index == 0 { address } else { address.saturating_sub(1) };
            annotated.push_str(&self.describe(loader, address));
        }
        annotated
    }

    fn loader(&self) -> Option<&Loader> {
        self.loader.get_or_init(|| Loader::new(self.file.as_ref()?).ok()).as_ref()
    }

    /// ` in FUNCTION at FILE:LINE`, once for every function that was inlined there.
    fn describe(&self, loader: &Loader, address: u64) -> String {
        let mut text = String::new();
        let mut frames = loader.find_frames(address).ok();
        while let Some(Ok(Some(frame))) = frames.as_mut().map(|frames| frames.next()) {
            let name = frame.function.as_ref().and_then(|name| name.demangle().ok());
            let separator = if text.is_empty() { " in " } else { "\n       inlined into " };
            let _ = write!(text, "{separator}{}", name.as_deref().unwrap_or("?"));
            if let Some((file, line)) = frame.location.and_then(|at| at.file.zip(at.line)) {
                let _ = write!(text, " at {}:{line}", self.shorten(file));
            }
        }
        if text.is_empty()
            && let Some(symbol) = loader.find_symbol(address)
        {
            let _ = write!(text, " in {}", addr2line::demangle_auto(symbol.into(), None));
        }
        text
    }

    /// The file as a reader knows it: from the root of the source tree, or in Rust's library.
    fn shorten<'a>(&self, file: &'a str) -> &'a str {
        let root = self.source.as_ref().and_then(|root| root.to_str());
        match root.and_then(|root| file.strip_prefix(root)) {
            Some(inside) => inside.trim_start_matches('/'),
            None => file.find("/library/").map_or(file, |at| &file[at + 1..]),
        }
    }
}

/// The frame's number and address, if the line ends in `#NUMBER 0xADDRESS`.
fn frame(line: &str) -> Option<(u32, u64)> {
    let (head, address) = line.trim_end().rsplit_once(" 0x")?;
    let (_, index) = head.rsplit_once('#')?;
    Some((index.parse().ok()?, u64::from_str_radix(address, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_recognised() {
        assert_eq!(frame("  #0 0xffffffff80012345"), Some((0, 0xffff_ffff_8001_2345)));
        assert_eq!(frame("0.012 c2 #12 0x10\r"), Some((12, 16)));
        for line in ["", "#1", "rip 0x10", "#x 0x10", "#1 0xfffffffffffffffff", "#1 0x10 more"] {
            assert_eq!(frame(line), None, "{line}");
        }
    }

    #[test]
    fn files_are_named_from_where_a_reader_stands() {
        let symbols = Symbols::new(None, Some("/src/nile".into()));
        assert_eq!(symbols.shorten("/src/nile/crates/abi/src/id.rs"), "crates/abi/src/id.rs");
        assert_eq!(
            symbols.shorten("/rustc/5980/library/core/src/ptr.rs"),
            "library/core/src/ptr.rs"
        );
        assert_eq!(symbols.shorten("/elsewhere/lib.rs"), "/elsewhere/lib.rs");
    }

    #[test]
    fn an_address_is_named_from_this_very_program() {
        let program = std::env::current_exe().unwrap();
        let loader = Loader::new(&program).unwrap();
        let symbol = "main";
        let address = (0..1 << 24)
            .step_by(16)
            .find(|address| loader.find_symbol(*address) == Some(symbol))
            .expect("a program has a main");
        let line = format!("#0 {address:#x}");
        let annotated = Symbols::new(Some(program), None).annotate(&line);
        assert!(annotated.starts_with(&line) && annotated.contains("main"), "{annotated}");
        assert_eq!(Symbols::new(None, None).annotate(&line), line);
    }
}
