//! What a configuration's text may be before it is parsed: the boot path has little stack and heap.

use alloc::format;

use toml_parser::Source;
use toml_parser::lexer::TokenKind;

use super::{ConfigError, line_of};

/// The most brackets that may be open at once, and the most dots in a key. The parser recurses
/// that deep, and on the boot path its stack is small.
const MAX_NESTING: usize = 4;

/// The most bytes of the text, and the most tokens: names, numbers, signs, comments, ends of lines.
/// The parser takes some thirty bytes for each of them, and on the boot path its heap is small.
pub const MAX_BYTES: usize = 16 << 10;
pub(super) const MAX_TOKENS: usize = 4096;

/// The most brackets and dots, each of which may begin a table: that takes a kilobyte.
const MAX_TABLES: usize = 128;

/// Whether the parser has enough for this text.
pub(super) fn check(text: &str) -> Result<(), ConfigError> {
    check_nesting(text)?;
    check_size(text)
}

fn check_size(text: &str) -> Result<(), ConfigError> {
    if text.len() > MAX_BYTES {
        let message = format!("it is longer than {MAX_BYTES} bytes");
        return Err(ConfigError { line: None, message });
    }
    let begins_table = |kind| {
        use TokenKind::{Dot, LeftCurlyBracket, LeftSquareBracket};
        matches!(kind, Dot | LeftCurlyBracket | LeftSquareBracket)
    };
    let tokens = || Source::new(text).lex();
    let table = tokens().filter(|token| begins_table(token.kind())).nth(MAX_TABLES);
    let beyond = [
        (tokens().nth(MAX_TOKENS), format!("{MAX_TOKENS} names, numbers and signs")),
        (table, format!("{MAX_TABLES} brackets and dots")),
    ];
    let beyond = beyond.into_iter().find_map(|(token, what)| Some((token?, what)));
    beyond.map_or(Ok(()), |(token, what)| {
        Err(ConfigError {
            line: Some(line_of(text, token.span().start())),
            message: format!("there are {what} before this"),
        })
    })
}

fn check_nesting(text: &str) -> Result<(), ConfigError> {
    let (mut brackets, mut dots) = (0usize, 0);
    for token in Source::new(text).lex() {
        match token.kind() {
            TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket => brackets += 1,
            TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket => {
                brackets = brackets.saturating_sub(1);
            }
            TokenKind::Dot => dots += 1,
            TokenKind::Equals | TokenKind::Comma | TokenKind::Newline => dots = 0,
            _ => {}
        }
        if brackets.max(dots) > MAX_NESTING {
            return Err(ConfigError {
                line: Some(line_of(text, token.span().start())),
                message: format!("nested deeper than {MAX_NESTING} levels"),
            });
        }
    }
    Ok(())
}
