//! Batches of records, as producers send them since Kafka 0.11 (the format's version 2).

use super::unpack::{self, Unpacked};
use super::wire::{Malformed, Read, Reader};

/// The version of the format.
const MAGIC: i8 = 2;

/// Attributes: how records are packed, and whether they are of a transaction or of the brokers'.
const PACKING: i16 = 7;
const TRANSACTION: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;

/// Records that were sent together.
#[derive(PartialEq, Eq, Debug)]
pub struct Batch {
    /// Who sent them, if it numbers what it sends: the number that it was given, and its epoch.
    pub producer: Option<(i64, i16)>,
    /// The number of the first among those of its producer, of 31 bits.
    pub sequence: u32,
    pub records: Vec<Record>,
}

/// What is used of a record.
#[derive(PartialEq, Eq, Debug)]
pub struct Record {
    /// When it was made, in milliseconds since 1970, if anybody knows.
    pub time_ms: Option<u64>,
    /// What it says.
    pub value: Option<Vec<u8>>,
}

/// Why records are not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// They are not what was sent.
    Corrupt,
    /// They have another format.
    Format,
    /// They are packed in a way that nobody here knows.
    Packing,
    /// They have too many bytes.
    TooLarge,
    /// They are of a transaction.
    Transaction,
}

impl From<Malformed> for Refused {
    fn from(Malformed: Malformed) -> Refused {
        Refused::Corrupt
    }
}

/// The only batch that a request has for a topic.
pub fn read(bytes: &[u8]) -> Result<Batch, Refused> {
    let mut reader = Reader(bytes);
    let _first_offset = reader.i64()?;
    let length = usize::try_from(reader.i32()?).map_err(|_| Refused::Corrupt)?;
    let mut reader = Reader(reader.bytes(length)?);
    let _leader = reader.i32()?;
    if reader.i8()? != MAGIC {
        return Err(Refused::Format);
    }
    if reader.u32()? != crc32c::crc32c(reader.0) || bytes.len() != 12 + length {
        return Err(Refused::Corrupt);
    }
    let attributes = reader.i16()?;
    let _last = reader.i32()?;
    let first_time = reader.i64()?;
    let _last_time = reader.i64()?;
    let (producer, epoch, sequence) = (reader.i64()?, reader.i16()?, reader.i32()?);
    let count = reader.i32()?;
    if attributes & (TRANSACTION | CONTROL) != 0 {
        return Err(Refused::Transaction);
    }
    let unpacked = unpack::unpack(attributes & PACKING, reader.0);
    let records = match &unpacked {
        Unpacked::Bytes(bytes) => bytes,
        Unpacked::TooLarge => return Err(Refused::TooLarge),
        Unpacked::Unknown => return Err(Refused::Packing),
        Unpacked::Corrupt => return Err(Refused::Corrupt),
    };
    let mut reader = Reader(records);
    let mut records = Vec::new();
    for _ in 0..count {
        records.push(record(&mut reader, first_time)?);
    }
    if !reader.0.is_empty() || records.is_empty() {
        return Err(Refused::Corrupt);
    }
    let (producer, sequence) = match (producer, u32::try_from(sequence)) {
        (..0, _) => (None, 0),
        (producer, Ok(sequence)) => (Some((producer, epoch)), sequence),
        (_, Err(_)) => return Err(Refused::Corrupt),
    };
    Ok(Batch { producer, sequence, records })
}

fn record(reader: &mut Reader<'_>, first_time: i64) -> Read<Record> {
    let length = usize::try_from(reader.varint()?).map_err(|_| Malformed)?;
    let mut reader = Reader(reader.bytes(length)?);
    let _attributes = reader.i8()?;
    let later = reader.varint()?;
    let _offset = reader.varint()?;
    let _key = reader.field()?;
    let value = reader.field()?.map(<[u8]>::to_vec);
    // What is behind, headers, is nothing here.
    let time_ms = first_time.checked_add(later).and_then(|it| u64::try_from(it).ok());
    Ok(Record { time_ms, value })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    fn varint(bytes: &mut Vec<u8>, number: i64) {
        let mut left = ((number << 1) ^ (number >> 63)) as u64;
        while left >= 0x80 {
            bytes.push(left as u8 | 0x80);
            left >>= 7;
        }
        bytes.push(left as u8);
    }

    /// Records as a producer writes them.
    pub fn records(values: &[Option<&str>]) -> Vec<u8> {
        let mut all = Vec::new();
        for (at, value) in values.iter().enumerate() {
            let mut record = vec![0];
            varint(&mut record, at as i64 * 3);
            varint(&mut record, at as i64);
            varint(&mut record, -1);
            varint(&mut record, value.map_or(-1, |it| it.len() as i64));
            record.extend(value.unwrap_or_default().as_bytes());
            varint(&mut record, 0);
            varint(&mut all, record.len() as i64);
            all.extend(record);
        }
        all
    }

    /// A batch of them.
    pub fn batch(attributes: i16, producer: (i64, i16, i32), count: i32, packed: &[u8]) -> Vec<u8> {
        let mut checked = Vec::new();
        checked.extend(attributes.to_be_bytes());
        checked.extend(count.wrapping_sub(1).to_be_bytes());
        checked.extend(1000_i64.to_be_bytes());
        checked.extend(1000_i64.to_be_bytes());
        checked.extend(producer.0.to_be_bytes());
        checked.extend(producer.1.to_be_bytes());
        checked.extend(producer.2.to_be_bytes());
        checked.extend(count.to_be_bytes());
        checked.extend(packed);
        let mut batch = Vec::new();
        batch.extend(0_i64.to_be_bytes());
        batch.extend((checked.len() as i32 + 9).to_be_bytes());
        batch.extend((-1_i32).to_be_bytes());
        batch.push(MAGIC as u8);
        batch.extend(crc32c::crc32c(&checked).to_be_bytes());
        batch.extend(checked);
        batch
    }

    #[test]
    fn a_batch_has_values_times_and_who_sent_it() {
        let bytes = batch(0, (5, 1, 40), 2, &records(&[Some("1 2"), None]));
        let it = read(&bytes).unwrap();
        assert_eq!((it.producer, it.sequence), (Some((5, 1)), 40));
        let second = Record { time_ms: Some(1003), value: None };
        assert_eq!(
            it.records,
            [Record { time_ms: Some(1000), value: Some(b"1 2".into()) }, second]
        );
        let bytes = batch(0, (-1, -1, -1), 1, &records(&[Some("1 2")]));
        assert_eq!(read(&bytes).unwrap().producer, None);
    }

    #[test]
    fn what_is_no_batch_is_refused_whatever_it_is() {
        let right = batch(0, (5, 1, 40), 2, &records(&[Some("1 2"), Some("3 4")]));
        assert!(read(&right).is_ok());
        for length in 0..right.len() {
            assert!(read(&right[..length]).is_err(), "{length} bytes of it");
        }
        for at in 8..right.len() {
            let mut wrong = right.clone();
            wrong[at] ^= 4;
            // Which broker leads is not covered by the checksum, and nobody here asks for it.
            assert_eq!(read(&wrong).is_ok(), (12..16).contains(&at), "byte {at}");
        }
        let plain = records(&[Some("1 2")]);
        let told = |attributes, producer, count| read(&batch(attributes, producer, count, &plain));
        assert_eq!(told(1 << 4, (5, 1, 0), 1), Err(Refused::Transaction));
        assert_eq!(told(7, (5, 1, 0), 1), Err(Refused::Packing));
        assert_eq!(told(0, (5, 1, -1), 1), Err(Refused::Corrupt));
        for count in [i32::MIN, -1, 0, 2, i32::MAX] {
            assert_eq!(told(0, (5, 1, 0), count), Err(Refused::Corrupt), "{count} records");
        }
    }
}
