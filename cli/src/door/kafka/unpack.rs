//! Records that are packed, each kind by a library that only unpacks as much as may be.

use std::borrow::Cow;
use std::io::{self, Read};

/// The most bytes of the records of a batch.
const MOST: u64 = 16 << 20;

/// How Java's and Python's producers begin what they pack with Snappy: blocks with their lengths
/// follow, behind two numbers of the format's version.
const XERIAL: &[u8] = b"\x82SNAPPY\0";

/// What became of packed bytes.
#[derive(Debug)]
pub enum Unpacked<'a> {
    Bytes(Cow<'a, [u8]>),
    TooLarge,
    Corrupt,
    /// The way in which they are packed is none.
    Unknown,
}

/// Unpacks records; the way is a number that Kafka gives it.
pub fn unpack(way: i16, packed: &[u8]) -> Unpacked<'_> {
    let read = match way {
        0 => return Unpacked::Bytes(Cow::Borrowed(packed)),
        1 => all(flate2::read::MultiGzDecoder::new(packed)),
        2 => return snappy(packed),
        3 => all(lz4_flex::frame::FrameDecoder::new(packed)),
        4 => match ruzstd::decoding::StreamingDecoder::new(packed) {
            Ok(decoder) => all(decoder),
            Err(_) => return Unpacked::Corrupt,
        },
        _ => return Unpacked::Unknown,
    };
    match read {
        Ok(bytes) if bytes.len() as u64 > MOST => Unpacked::TooLarge,
        Ok(bytes) => Unpacked::Bytes(Cow::Owned(bytes)),
        Err(_) => Unpacked::Corrupt,
    }
}

/// All bytes, but one more than may be at most.
fn all(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MOST + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn snappy(packed: &[u8]) -> Unpacked<'_> {
    let mut bytes = Vec::new();
    let mut rest = match packed.strip_prefix(XERIAL) {
        Some(rest) => rest.get(8..).unwrap_or_default(),
        None => return block(packed, &mut bytes).unwrap_or(Unpacked::Bytes(Cow::Owned(bytes))),
    };
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = u32::from_be_bytes(*length) as usize;
        let Some((packed, behind)) = behind.split_at_checked(length) else {
            return Unpacked::Corrupt;
        };
        if let Some(wrong) = block(packed, &mut bytes) {
            return wrong;
        }
        rest = behind;
    }
    if rest.is_empty() { Unpacked::Bytes(Cow::Owned(bytes)) } else { Unpacked::Corrupt }
}

/// Adds what is in a block; what is wrong with it, if anything is.
fn block(packed: &[u8], bytes: &mut Vec<u8>) -> Option<Unpacked<'static>> {
    let Ok(length) = snap::raw::decompress_len(packed) else { return Some(Unpacked::Corrupt) };
    if (bytes.len() + length) as u64 > MOST {
        return Some(Unpacked::TooLarge);
    }
    match snap::raw::Decoder::new().decompress_vec(packed) {
        Ok(more) => bytes.extend(more),
        Err(_) => return Some(Unpacked::Corrupt),
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn lz4(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn raw_snappy(bytes: &[u8]) -> Vec<u8> {
        snap::raw::Encoder::new().compress_vec(bytes).unwrap()
    }

    fn xerial(bytes: &[u8]) -> Vec<u8> {
        let mut packed = [XERIAL, &[0, 0, 0, 1, 0, 0, 0, 1]].concat();
        for part in bytes.chunks(1000) {
            let part = raw_snappy(part);
            packed.extend((part.len() as u32).to_be_bytes());
            packed.extend(part);
        }
        packed
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        ruzstd::encoding::compress_to_vec(bytes, level)
    }

    type Pack = fn(&[u8]) -> Vec<u8>;

    const WAYS: [(i16, Pack); 6] =
        [(0, <[u8]>::to_vec), (1, gzip), (2, raw_snappy), (2, xerial), (3, lz4), (4, zstd)];

    #[test]
    fn what_was_packed_comes_out_again() {
        let plain: Vec<u8> = (0..5000_u32).flat_map(|it| (it / 7).to_be_bytes()).collect();
        for (way, pack) in WAYS {
            let packed = pack(&plain);
            match unpack(way, &packed) {
                Unpacked::Bytes(bytes) => assert_eq!(bytes, plain, "way {way}"),
                other => panic!("way {way}: {other:?}"),
            }
        }
        assert!(matches!(unpack(5, &plain), Unpacked::Unknown));
    }

    #[test]
    fn little_that_becomes_much_is_not_unpacked_whole() {
        let much = vec![0; MOST as usize + 1];
        for (way, pack) in WAYS.into_iter().filter(|(way, _)| *way != 0) {
            assert!(matches!(unpack(way, &pack(&much)), Unpacked::TooLarge), "way {way}");
        }
        // A length that lies.
        assert!(matches!(unpack(2, &[0xff, 0xff, 0xff, 0xff, 0xf, 0]), Unpacked::TooLarge));
    }

    #[test]
    fn what_is_cut_or_changed_never_panics() {
        let plain: Vec<u8> = (0..3000_u32).map(|it| (it / 5) as u8).collect();
        for (way, pack) in WAYS.into_iter().filter(|(way, _)| *way != 0) {
            let packed = pack(&plain);
            for length in 0..packed.len() {
                let _ = unpack(way, &packed[..length]);
            }
            for at in 0..packed.len() {
                let mut wrong = packed.clone();
                wrong[at] ^= 0x15;
                let _ = unpack(way, &wrong);
            }
        }
    }
}
