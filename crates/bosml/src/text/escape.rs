//! Characters that a text cannot have as they are.

use alloc::string::String;

use crate::error::{Error, ErrorKind};

/// Puts `text` as it stands between tags and in attributes. Fails with [`ErrorKind::NoText`] and
/// the character's place in `text`.
pub fn escape(text: &str, out: &mut String) -> Result<(), Error> {
    put(text, out, |found, at| Err(Error::new(ErrorKind::NoText { found }, at)))
}

/// The same; what cannot be carried is replaced.
pub(crate) fn escape_lossy(text: &str, out: &mut String) {
    let replace = |_, _| Ok::<char, core::convert::Infallible>(char::REPLACEMENT_CHARACTER);
    match put(text, out, replace) {
        Ok(()) => {}
    }
}

fn put<E>(
    text: &str,
    out: &mut String,
    replace: impl Fn(char, usize) -> Result<char, E>,
) -> Result<(), E> {
    let mut rest = text;
    loop {
        let needs_look = |byte| is_special(byte) | (byte == b'"') | (byte == 0xef);
        let (plain, special) = rest.split_at(before(rest.as_bytes(), needs_look));
        out.push_str(plain);
        let Some(found) = special.chars().next() else { return Ok(()) };
        match found {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            _ if is_text(found) => out.push(found),
            _ => out.push(replace(found, text.len() - special.len())?),
        }
        rest = &special[found.len_utf8()..];
    }
}

/// Whether a text can carry this character as it is.
pub(crate) fn is_text(c: char) -> bool {
    !matches!(c, '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

/// Whether text is escaped or ends at this byte, or cannot carry it.
#[inline]
pub(crate) fn is_special(byte: u8) -> bool {
    // Without branches, so that sixteen bytes are compared at once.
    let control = (byte < 0x20) & (byte != b'\t') & (byte != b'\n');
    control | (byte == b'<') | (byte == b'>') | (byte == b'&')
}

/// How many bytes come before the first for which `is_it` holds.
#[inline]
pub(crate) fn before(bytes: &[u8], is_it: impl Fn(u8) -> bool) -> usize {
    // A loop without an exit in it becomes a few vector instructions.
    const LANES: usize = 16;
    let (blocks, _) = bytes.as_chunks::<LANES>();
    let any = |block: &[u8; LANES]| block.iter().fold(0, |any, it| any | u8::from(is_it(*it)));
    let start = blocks.iter().take_while(|block| any(block) == 0).count() * LANES;
    let rest = &bytes[start..];
    start + rest.iter().position(|it| is_it(*it)).unwrap_or(rest.len())
}

/// Where in UTF-8 the first character is that XML forbids, though it is no control character.
pub(crate) fn noncharacter(bytes: &[u8]) -> Option<usize> {
    // Both such characters begin with this byte, and hardly any other does.
    let start = before(bytes, |byte| byte == 0xef);
    let mut places = bytes[start..].windows(3);
    places.position(|it| matches!(it, [0xef, 0xbf, 0xbe | 0xbf])).map(|at| start + at)
}
