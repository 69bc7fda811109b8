//! Device registers in memory.

use nile_abi::VirtAddr;

/// A device's registers, as this core has them mapped. A copy names the same registers.
#[derive(Clone, Copy, Debug)]
pub struct Mmio {
    base: VirtAddr,
    bytes: usize,
}

impl Mmio {
    /// The registers in the `bytes` bytes from `base` on.
    ///
    /// # Safety
    /// They are mapped writable and uncached for as long as this value or a copy of it is used,
    /// and nothing but one device's registers is there.
    pub const unsafe fn new(base: VirtAddr, bytes: usize) -> Mmio {
        Mmio { base, bytes }
    }

    fn register<T>(self, offset: usize) -> *mut T {
        let end = offset + size_of::<T>();
        assert!(offset.is_multiple_of(align_of::<T>()) && end <= self.bytes, "no such register");
        (self.base.0 as usize + offset) as *mut T
    }

    fn read<T>(self, offset: usize) -> T {
        // SAFETY: `new`'s caller vouches for the mapping, `register` for offset and alignment; any
        // bytes are a value of the integers that this is called for.
        unsafe { self.register::<T>(offset).read_volatile() }
    }

    fn write<T>(self, offset: usize, value: T) {
        // SAFETY: as in `read`.
        unsafe { self.register::<T>(offset).write_volatile(value) }
    }

    /// Reads the 8-bit register at `offset`, which must be one of the device's.
    pub fn read8(self, offset: usize) -> u8 {
        self.read(offset)
    }

    /// Writes the 8-bit register at `offset`, which must be one of the device's.
    pub fn write8(self, offset: usize, value: u8) {
        self.write(offset, value);
    }

    /// Reads the 16-bit register at `offset`, which must be one of the device's.
    pub fn read16(self, offset: usize) -> u16 {
        self.read(offset)
    }

    /// Writes the 16-bit register at `offset`, which must be one of the device's.
    pub fn write16(self, offset: usize, value: u16) {
        self.write(offset, value);
    }

    /// Reads the 32-bit register at `offset`, which must be one of the device's.
    pub fn read32(self, offset: usize) -> u32 {
        self.read(offset)
    }

    /// Writes the 32-bit register at `offset`, which must be one of the device's.
    pub fn write32(self, offset: usize, value: u32) {
        self.write(offset, value);
    }
}
