//! Numbers, texts and arrays as Kafka has them in requests that are not "flexible". Nothing is
//! reserved by what a length says.

/// What cannot be read: whoever says so is no client, or a broken one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

/// What is read.
pub type Read<T> = Result<T, Malformed>;

/// Reads what is left of some bytes.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next so many bytes.
    pub fn bytes(&mut self, count: usize) -> Read<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn fixed<const N: usize>(&mut self) -> Read<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*bytes)
    }

    pub fn i8(&mut self) -> Read<i8> {
        self.fixed().map(i8::from_be_bytes)
    }

    pub fn i16(&mut self) -> Read<i16> {
        self.fixed().map(i16::from_be_bytes)
    }

    pub fn i32(&mut self) -> Read<i32> {
        self.fixed().map(i32::from_be_bytes)
    }

    pub fn i64(&mut self) -> Read<i64> {
        self.fixed().map(i64::from_be_bytes)
    }

    pub fn u32(&mut self) -> Read<u32> {
        self.fixed().map(u32::from_be_bytes)
    }

    /// A text, or none.
    pub fn text(&mut self) -> Read<Option<&'a str>> {
        let Ok(length) = usize::try_from(self.i16()?) else { return Ok(None) };
        std::str::from_utf8(self.bytes(length)?).map(Some).map_err(|_| Malformed)
    }

    /// Bytes, or none.
    pub fn blob(&mut self) -> Read<Option<&'a [u8]>> {
        let Ok(length) = usize::try_from(self.i32()?) else { return Ok(None) };
        self.bytes(length).map(Some)
    }

    /// An array; none is said otherwise than one that is empty.
    pub fn array<T>(
        &mut self,
        mut item: impl FnMut(&mut Reader<'a>) -> Read<T>,
    ) -> Read<Option<Vec<T>>> {
        let Ok(count) = usize::try_from(self.i32()?) else { return Ok(None) };
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(Some(items))
    }

    /// A number in a record: seven bits a byte, the sign in the lowest.
    pub fn varint(&mut self) -> Read<i64> {
        let mut number = 0_u64;
        for at in (0..64).step_by(7) {
            let [byte] = self.fixed()?;
            number |= u64::from(byte & 0x7f) << at;
            if byte < 0x80 {
                return Ok((number >> 1) as i64 ^ -((number & 1) as i64));
            }
        }
        Err(Malformed)
    }

    /// Bytes of a record, or none.
    pub fn field(&mut self) -> Read<Option<&'a [u8]>> {
        let Ok(length) = usize::try_from(self.varint()?) else { return Ok(None) };
        self.bytes(length).map(Some)
    }
}

/// Writes an answer.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    pub fn bool(&mut self, value: bool) -> &mut Writer {
        self.0.push(u8::from(value));
        self
    }

    pub fn i16(&mut self, value: i16) -> &mut Writer {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub fn i32(&mut self, value: i32) -> &mut Writer {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub fn i64(&mut self, value: i64) -> &mut Writer {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// A text, or none. One that is too long is cut.
    pub fn text(&mut self, text: Option<&str>) -> &mut Writer {
        let Some(text) = text else { return self.i16(-1) };
        let text = &text[..text.floor_char_boundary(i16::MAX as usize)];
        self.i16(text.len() as i16);
        self.0.extend(text.as_bytes());
        self
    }

    pub fn array<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut item: impl FnMut(&mut Writer, T),
    ) -> &mut Writer {
        self.i32(items.len() as i32);
        items.for_each(|it| item(self, it));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut writer = Writer::default();
        writer.i16(-2).i32(7).i64(i64::MIN).text(Some("a graph")).text(None);
        writer.array([1, 2].iter(), |writer, it| {
            writer.i32(*it);
        });
        let mut reader = Reader(&writer.0);
        assert_eq!(reader.i16(), Ok(-2));
        assert_eq!(reader.i32(), Ok(7));
        assert_eq!(reader.i64(), Ok(i64::MIN));
        assert_eq!(reader.text(), Ok(Some("a graph")));
        assert_eq!(reader.text(), Ok(None));
        assert_eq!(reader.array(Reader::i32), Ok(Some(vec![1, 2])));
        assert_eq!(reader.i8(), Err(Malformed));
    }

    #[test]
    fn numbers_of_records_have_their_sign_in_the_lowest_bit() {
        for (bytes, number) in [
            (&[0][..], 0),
            (&[1], -1),
            (&[2], 1),
            (&[0xac, 2], 150),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], i64::MIN),
        ] {
            assert_eq!(Reader(bytes).varint(), Ok(number));
        }
        assert_eq!(Reader(&[0x80]).varint(), Err(Malformed));
        assert_eq!(Reader(&[0xff; 11]).varint(), Err(Malformed));
    }

    #[test]
    fn a_length_that_lies_reserves_nothing() {
        let lies = i32::MAX.to_be_bytes();
        assert_eq!(Reader(&lies).array(Reader::i8), Err(Malformed));
        assert_eq!(Reader(&lies).blob(), Err(Malformed));
        assert_eq!(Reader(&[0x7f, 0xff, b'a']).text(), Err(Malformed));
    }
}
