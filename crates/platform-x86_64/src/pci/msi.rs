//! MSI: a function interrupts by storing a word to an address, both in its configuration (PCI 3.0,
//! 6.8.1), which only the boot path may touch: so it says there once which core that is.

use virtio_drivers::transport::pci::bus::ConfigurationAccess;

use super::function::Function;
use super::msix::address;
use crate::apic::ApicId;
use crate::vector::Vector;

const CAPABILITY: u8 = 0x05;
const ENABLED: u32 = 1 << 16;
const SEVERAL: u32 = 0b111 << 20;
const ADDRESS_OF_64_BITS: u32 = 1 << 23;
const ADDRESS: u8 = 4;

/// Which core is interrupted, and through which vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// The core, which [messages can reach](super::msix::reaches).
    pub core: ApicId,
    /// The vector.
    pub vector: Vector,
}

/// Has a function interrupt by this one message; whether it can.
pub fn enable<C: ConfigurationAccess + Copy>(function: &mut Function<C>, message: Message) -> bool {
    const BYTES: u8 = 14;
    let at = function.capabilities(CAPABILITY).first().copied();
    let Some(at) = at.filter(|at| *at <= u8::MAX - BYTES) else { return false };
    let control = function.read(at);
    function.write(at + ADDRESS, address(message.core));
    let data = if control & ADDRESS_OF_64_BITS == 0 {
        at + ADDRESS + 4
    } else {
        function.write(at + ADDRESS + 4, 0);
        at + ADDRESS + 8
    };
    function.write(data, message.vector.0.into());
    function.write(at, control & !SEVERAL | ENABLED);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pci::tests::{FakeFunction, FakeSpace};
    use virtio_drivers::transport::pci::bus::DeviceFunction;

    #[test]
    fn a_message_names_core_and_vector() {
        let at = DeviceFunction { bus: 0, device: 2, function: 0 };
        let message = Message { core: ApicId(3), vector: Vector(0x38) };
        for (wide, data) in [(0, 0x48), (0x80, 0x4c)] {
            let space = FakeSpace::default();
            let capability = [0x05 | (0x70 | wide) << 16, 0, 0xff, 0];
            let fake = FakeFunction::new(1, 1, 0).with_capability(0x40, &capability);
            space.put(at.bus, at.device, at.function, fake);
            let mut function = Function::find(&space, at).unwrap();
            assert!(enable(&mut function, message));
            assert_eq!(space.word(at, 0x44), 0xfee0_3000);
            assert_eq!(space.word(at, data), 0x38);
            assert_eq!(space.word(at, 0x40) >> 16, 1 | wide, "one message, enabled");
        }
        let space = FakeSpace::default();
        space.put(at.bus, at.device, at.function, FakeFunction::new(1, 1, 0));
        assert!(!enable(&mut Function::find(&space, at).unwrap(), message));
    }
}
