//! Makes the Sort Benchmark's records: any stretch of them, byte by byte what its own generator
//! and Hadoop's make. Skewed keys (`gensort -s`) are not among them.

use crate::random::Random;

/// Bytes of a record.
const LENGTH: usize = 100;

/// Bytes of a key.
const KEY: usize = 10;

/// What the records look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// `gensort` since its version 1.3: every byte is random.
    Binary,
    /// `gensort -a`: printable characters that end with a line's end, as PennySort wants them.
    Ascii,
    /// Hadoop's `teragen`, and `gensort` before its version 1.3: a random key, the record's number
    /// in hexadecimal digits, and filler.
    Hadoop,
}

/// Makes records of one format one after the other.
#[derive(Clone, Debug)]
pub struct Generator {
    format: Format,
    /// The number of the next record.
    number: u128,
    random: Random,
    /// For [`Format::Binary`]: the random numbers of the next record, of which the first is its
    /// key and each becomes the one before in the record after it.
    window: [u128; LENGTH / KEY],
}

impl Generator {
    /// The records from the `first` on, counted from zero.
    pub fn new(format: Format, first: u128) -> Generator {
        let mut random = Random::after(first);
        let mut window = [0; LENGTH / KEY];
        if format == Format::Binary {
            window.fill_with(|| random.draw());
        }
        Generator { format, number: first, random, window }
    }

    /// Fills `out` with whole records and gives how many these are. What is left of `out`, less
    /// than a record, is not touched.
    pub fn fill(&mut self, out: &mut [u8]) -> usize {
        let (records, _) = out.as_chunks_mut::<LENGTH>();
        match self.format {
            Format::Binary => records.iter_mut().for_each(|record| self.binary(record)),
            Format::Ascii => records.iter_mut().for_each(|record| self.ascii(record)),
            Format::Hadoop => records.iter_mut().for_each(|record| self.hadoop(record)),
        }
        records.len()
    }

    #[inline(always)]
    fn binary(&mut self, record: &mut [u8; LENGTH]) {
        let (parts, _) = record.as_chunks_mut::<KEY>();
        for ((part, number), mask) in parts.iter_mut().zip(self.window).zip(MASKS) {
            let [bytes @ .., _, _, _, _, _, _] = (number ^ mask).to_be_bytes();
            *part = bytes;
        }
        self.window.rotate_left(1);
        self.window[LENGTH / KEY - 1] = self.random.draw();
        self.number += 1;
    }

    fn ascii(&mut self, record: &mut [u8; LENGTH]) {
        let random = self.random.draw();
        let (mut high, mut low) = ((random >> 64) as u64, random as u64);
        for (at, byte) in record[..KEY].iter_mut().enumerate() {
            let rest = if at < 8 { &mut high } else { &mut low };
            *byte = b' ' + (*rest % 95) as u8;
            *rest /= 95;
        }
        record[10..12].fill(b' ');
        self.write_number(&mut record[12..44]);
        record[44..46].fill(b' ');
        write_filler(random, &mut record[46..98]);
        record[98..].copy_from_slice(b"\r\n");
    }

    fn hadoop(&mut self, record: &mut [u8; LENGTH]) {
        let random = self.random.draw();
        record[..KEY].copy_from_slice(&random.to_be_bytes()[..KEY]);
        record[10..12].copy_from_slice(&[0x00, 0x11]);
        self.write_number(&mut record[12..44]);
        record[44..48].copy_from_slice(&[0x88, 0x99, 0xaa, 0xbb]);
        write_filler(random, &mut record[48..96]);
        record[96..].copy_from_slice(&[0xcc, 0xdd, 0xee, 0xff]);
    }

    /// The record's number in hexadecimal digits; goes on to the next record.
    #[inline(always)]
    fn write_number(&mut self, digits: &mut [u8]) {
        for (digit, shift) in digits.iter_mut().rev().zip((0..).step_by(4)) {
            *digit = hexadecimal(self.number >> shift);
        }
        self.number += 1;
    }
}

/// Writes the lowest hexadecimal digits of `random`, each four times.
#[inline(always)]
fn write_filler(random: u128, filler: &mut [u8]) {
    let (groups, _) = filler.as_chunks_mut::<4>();
    for (group, shift) in groups.iter_mut().rev().zip((0..).step_by(4)) {
        *group = [hexadecimal(random >> shift); 4];
    }
}

#[inline(always)]
fn hexadecimal(number: u128) -> u8 {
    b"0123456789ABCDEF"[(number & 15) as usize]
}

/// What the random numbers of a binary record are combined with, so that no part of a record is
/// found again in the next one.
const MASKS: [u128; LENGTH / KEY] = [
    0,
    0xf0e8_e4e2_e1d8_d4d2_d1cc_0000_0000_0000,
    0xcac9_c6c5_c3b8_b4b2_b1ac_0000_0000_0000,
    0xaaa9_a6a5_a39c_9a99_9695_0000_0000_0000,
    0x938e_8d8b_8778_7472_716c_0000_0000_0000,
    0x6a69_6665_635c_5a59_5655_0000_0000_0000,
    0x534e_4d4b_473c_3a39_3635_0000_0000_0000,
    0x332e_2d2b_271e_1d1b_170f_0000_0000_0000,
    0xc8c4_c2c1_9894_9291_8ce0_0000_0000_0000,
    0x170f_332e_2d2b_271e_1d1b_0000_0000_0000,
];
