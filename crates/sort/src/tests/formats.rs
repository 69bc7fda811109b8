//! The records are those of others' generators, byte by byte.

use alloc::format;
use alloc::string::ToString;

use super::{LENGTH, generated};
use crate::generator::{Format, Generator};
use crate::layout::Tera;
use crate::validate::{Summary, Validator};

fn summary(format: Format, records: usize) -> Summary {
    let mut generator = Generator::new(format, 0);
    let mut validator = Validator::<Tera>::new();
    let mut buffer = alloc::vec![0; 1000 * LENGTH];
    for _ in 0..records / 1000 {
        generator.fill(&mut buffer);
        validator.push(&buffer);
    }
    validator.finish().unwrap()
}

#[test]
fn ascii_records_are_those_of_gensort() {
    let records = generated(Format::Ascii, 2);
    let text = core::str::from_utf8(&records).unwrap();
    let first = "AsfAGHM5om  00000000000000000000000000000000  \
                 0000222200002222000022220000222200002222000000001111\r\n";
    let second = "~sHd0jDv6X  00000000000000000000000000000001  \
                  77779999444488885555CCCC777755555555BBBB666644446666\r\n";
    assert_eq!(text, format!("{first}{second}"));
    // What gensort itself and Hadoop's port of it say.
    assert_eq!(summary(Format::Ascii, 1000).checksum.to_string(), "1f5dfb3631a");
    assert_eq!(summary(Format::Ascii, 1_000_000).checksum.to_string(), "7a19cff467438");
}

#[test]
fn hadoop_records_are_those_of_teragen() {
    let records = generated(Format::Hadoop, 2);
    let (first, second) = records.split_at(LENGTH);
    assert_eq!(&first[..12], b"JimGrayRIP\x00\x11");
    assert_eq!(&first[12..48], b"00000000000000000000000000000000\x88\x99\xaa\xbb");
    assert_eq!(&first[48..96], b"222200002222000022220000222200002222000000001111");
    assert_eq!(&first[96..], b"\xcc\xdd\xee\xff");
    assert_eq!(&second[..12], b"\x95\xe0\xe4\x82\x62\xb3\xed\xfe\x04\x47\x00\x11");
    assert_eq!(&second[12..44], b"00000000000000000000000000000001");
    assert_eq!(&second[48..96], b"9999444488885555CCCC777755555555BBBB666644446666");
    // What teravalidate says of a thousand and of a million.
    assert_eq!(summary(Format::Hadoop, 1000).checksum.to_string(), "1f9ffe645ec");
    assert_eq!(summary(Format::Hadoop, 1_000_000).checksum.to_string(), "7a27e2d0d55de");
}

#[test]
fn binary_records_are_those_of_gensort() {
    let records = generated(Format::Binary, 11);
    assert_eq!(&records[..10], b"JimGrayRIP");
    // Each part of a record is the key of a later one, combined with the part's constant.
    let key = |record: usize| &records[record * LENGTH..][..10];
    let second: [u8; 10] = core::array::from_fn(|at| {
        key(1)[at] ^ [0xf0, 0xe8, 0xe4, 0xe2, 0xe1, 0xd8, 0xd4, 0xd2, 0xd1, 0xcc][at]
    });
    let last: [u8; 10] = core::array::from_fn(|at| {
        key(9)[at] ^ [0x17, 0x0f, 0x33, 0x2e, 0x2d, 0x2b, 0x27, 0x1e, 0x1d, 0x1b][at]
    });
    assert_eq!(records[10..20], second);
    assert_eq!(records[90..100], last);
    // The keys are the same in both binary formats.
    let hadoop = generated(Format::Hadoop, 11);
    for (ours, other) in records.chunks_exact(LENGTH).zip(hadoop.chunks_exact(LENGTH)) {
        assert_eq!(ours[..10], other[..10]);
    }
    // What valsort says of a million.
    assert_eq!(summary(Format::Binary, 1_000_000).checksum.to_string(), "7a0e0d4868cd4");
}

#[test]
fn records_far_from_the_first() {
    let mut records = [0; 3 * LENGTH];
    Generator::new(Format::Hadoop, 123_456_789_012_345).fill(&mut records);
    let third = &records[2 * LENGTH..];
    assert_eq!(third[..10], [0x08, 0x32, 0x37, 0xe4, 0x65, 0x3c, 0xa0, 0x87, 0x9f, 0xf9]);
    assert_eq!(&third[12..44], b"000000000000000000007048860DDF7B");
    Generator::new(Format::Ascii, 123_456_789_012_345).fill(&mut records);
    assert_eq!(&records[..10], b"!c &Jxgz(o");
    assert_eq!(&records[2 * LENGTH..][..10], b"|d$H8L0\"Js");
}

#[test]
fn stretches_are_those_of_the_whole() {
    for format in [Format::Binary, Format::Ascii, Format::Hadoop] {
        let whole = generated(format, 100);
        for first in [0, 1, 9, 10, 11, 37, 99] {
            // Not all of the buffer holds records.
            let mut part = alloc::vec![7; (100 - first) * LENGTH + 99];
            assert_eq!(Generator::new(format, first as u128).fill(&mut part), 100 - first);
            assert_eq!(part[..(100 - first) * LENGTH], whole[first * LENGTH..], "{format:?}");
            assert!(part[(100 - first) * LENGTH..].iter().all(|byte| *byte == 7));
        }
    }
}
