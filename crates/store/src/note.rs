//! Notes: small values under keys, beside the datasets, for those who want a little kept. A new
//! value takes the place of the old one; an empty one removes it.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::bytes::{Reader, Writer};
use crate::manifest::{LONGEST_NAME, Name};
use crate::record::UNIT_PAYLOAD;

/// The longest value of a note, in bytes.
pub const LONGEST_NOTE: usize = 1024;

/// Notes by their keys.
pub(crate) type Notes = BTreeMap<Name, Box<[u8]>>;

/// The longest note in a record: its key and its value behind their lengths.
pub(crate) const MOST_IN_RECORD: usize = 1 + LONGEST_NAME + 2 + LONGEST_NOTE;

// Whoever has room for a unit has room for a note.
const _: () = assert!(MOST_IN_RECORD <= UNIT_PAYLOAD);

/// Bytes of a note in a record.
pub(crate) fn bytes(key: &Name, value: &[u8]) -> usize {
    1 + key.as_str().len() + 2 + value.len()
}

/// What a record says of notes: as many of them, in the order of their keys, as fit `most` bytes.
/// Gives also the last of them.
pub(crate) fn payload<'a>(
    notes: impl Iterator<Item = (&'a Name, &'a Box<[u8]>)>,
    most: usize,
) -> (Vec<u8>, Option<&'a Name>) {
    let (mut writer, mut last) = (Writer::default(), None);
    for (key, value) in notes {
        if writer.0.len() + bytes(key, value) > most {
            break;
        }
        writer.text(key.as_str());
        writer.u16(value.len() as u16);
        writer.0.extend_from_slice(value);
        last = Some(key);
    }
    (writer.0, last)
}

/// The notes of a record; `None` if they are not well-formed, or not in the order of their keys.
pub(crate) fn read(payload: &[u8]) -> Option<Notes> {
    let (mut reader, mut notes) = (Reader(payload), Notes::new());
    while !reader.0.is_empty() {
        let key = Name::new(reader.text()?)?;
        let length = usize::from(reader.u16()?);
        let value = reader.bytes(length)?;
        let is_next = notes.last_key_value().is_none_or(|(last, _)| *last < key);
        (is_next && length <= LONGEST_NOTE).then_some(())?;
        notes.insert(key, value.into());
    }
    Some(notes)
}
