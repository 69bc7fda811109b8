//! Bytes taken one field at a time: how an input says what a function is to do.

/// What is left of an input.
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input(bytes)
    }

    /// The next `N` bytes, unless fewer are left.
    pub fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    pub fn word(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// The next `count` bytes, or as many as are left.
    pub fn most(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
