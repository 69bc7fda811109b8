//! What a domain's kernel tries against what is not its own, so that scenarios see that it gets
//! nowhere. The names are those of ways; what each aims at, the scenario says.

use core::fmt;

/// What a way of attack leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// A word of memory, by its physical address.
    Memory,
    /// A core, by the machine's name for it.
    Core,
    /// Something of the machine that every core sees: whoever attacks sees whether it changed.
    Machine,
    /// The whole machine, which it would switch off or reset.
    Power,
    /// The supervisor, by what a domain shares with it: messages, frames, how far it has come. No
    /// guard keeps a domain from writing there; whoever reads it believes nothing.
    Seat,
}

/// A way to reach what a domain has not been given.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Attack {
    /// Store an entry for it right into a page directory.
    StoreEntry,
    /// Ask the gate for a page of 4 KiB.
    MapSmall,
    /// Ask the gate for a page of 2 MiB.
    MapLarge,
    /// Ask the gate for a page of 1 GiB that covers it.
    MapHuge,
    /// Write a last-level table into own memory, and have it linked.
    ForgeTable,
    /// The same of a page directory.
    ForgeDirectory,
    /// The same of a table right below the root.
    ForgeUpper,
    /// Map an own page table as if it were memory, and write an entry there.
    TableAsMemory,
    /// Have it zeroed, as memory is that was just allocated.
    Zero,
    /// Reset a core.
    ResetCore,
    /// Send a core an interrupt that cannot be masked.
    UnmaskedInterrupt,
    /// Send a core the interrupt by which its own kernel tells a panic.
    PanicInterrupt,
    /// Reset a core by stores into the own interrupt controller.
    StoreCommand,
    /// Store into an own interrupt gate.
    StoreGate,
    /// Store into an own segment descriptor.
    StoreSegment,
    /// Mask an interrupt of the board's controller.
    MaskBoard,
    /// Choose a register of a device on the bus.
    ChooseDevice,
    /// Change what is kept while the machine is off.
    ChangeSettings,
    /// Change how this processor caches memory.
    ChangeCaching,
    /// Reset the machine by its reset register.
    ResetMachine,
    /// The same by the keyboard's controller.
    ResetByKeyboard,
    /// The same by the fast reset.
    FastReset,
    /// Switch the machine off.
    SwitchOff,
    /// Spoil the own interrupt gates, and fault.
    TripleFault,
    /// Fill the seat with ones: every length and index is as large as it can be.
    SeatOfOnes,
    /// Fill it with noise.
    SeatOfNoise,
}

impl Attack {
    /// All of them.
    pub const ALL: [Attack; 26] = [
        Attack::StoreEntry,
        Attack::MapSmall,
        Attack::MapLarge,
        Attack::MapHuge,
        Attack::ForgeTable,
        Attack::ForgeDirectory,
        Attack::ForgeUpper,
        Attack::TableAsMemory,
        Attack::Zero,
        Attack::ResetCore,
        Attack::UnmaskedInterrupt,
        Attack::PanicInterrupt,
        Attack::StoreCommand,
        Attack::StoreGate,
        Attack::StoreSegment,
        Attack::MaskBoard,
        Attack::ChooseDevice,
        Attack::ChangeSettings,
        Attack::ChangeCaching,
        Attack::ResetMachine,
        Attack::ResetByKeyboard,
        Attack::FastReset,
        Attack::SwitchOff,
        Attack::TripleFault,
        Attack::SeatOfOnes,
        Attack::SeatOfNoise,
    ];

    /// What it leads to.
    pub const fn target(self) -> Target {
        match self {
            Attack::StoreEntry
            | Attack::MapSmall
            | Attack::MapLarge
            | Attack::MapHuge
            | Attack::ForgeTable
            | Attack::ForgeDirectory
            | Attack::ForgeUpper
            | Attack::TableAsMemory
            | Attack::Zero => Target::Memory,
            Attack::ResetCore
            | Attack::UnmaskedInterrupt
            | Attack::PanicInterrupt
            | Attack::StoreCommand => Target::Core,
            Attack::StoreGate
            | Attack::StoreSegment
            | Attack::MaskBoard
            | Attack::ChooseDevice
            | Attack::ChangeSettings
            | Attack::ChangeCaching => Target::Machine,
            Attack::ResetMachine
            | Attack::ResetByKeyboard
            | Attack::FastReset
            | Attack::SwitchOff
            | Attack::TripleFault => Target::Power,
            Attack::SeatOfOnes | Attack::SeatOfNoise => Target::Seat,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Attack::StoreEntry => "store-entry",
            Attack::MapSmall => "map-small",
            Attack::MapLarge => "map-large",
            Attack::MapHuge => "map-huge",
            Attack::ForgeTable => "forge-table",
            Attack::ForgeDirectory => "forge-directory",
            Attack::ForgeUpper => "forge-upper",
            Attack::TableAsMemory => "table-as-memory",
            Attack::Zero => "zero",
            Attack::ResetCore => "reset-core",
            Attack::UnmaskedInterrupt => "unmasked-interrupt",
            Attack::PanicInterrupt => "panic-interrupt",
            Attack::StoreCommand => "store-command",
            Attack::StoreGate => "store-gate",
            Attack::StoreSegment => "store-segment",
            Attack::MaskBoard => "mask-board",
            Attack::ChooseDevice => "choose-device",
            Attack::ChangeSettings => "change-settings",
            Attack::ChangeCaching => "change-caching",
            Attack::ResetMachine => "reset-machine",
            Attack::ResetByKeyboard => "reset-by-keyboard",
            Attack::FastReset => "fast-reset",
            Attack::SwitchOff => "switch-off",
            Attack::TripleFault => "triple-fault",
            Attack::SeatOfOnes => "seat-of-ones",
            Attack::SeatOfNoise => "seat-of-noise",
        }
    }

    /// What whoever attacks does.
    pub const fn what(self) -> &'static str {
        match self {
            Attack::StoreEntry => "store an entry for it right into a page directory",
            Attack::MapSmall => "ask the gate for a page of 4 KiB",
            Attack::MapLarge => "ask the gate for a page of 2 MiB",
            Attack::MapHuge => "ask the gate for a page of 1 GiB that covers it",
            Attack::ForgeTable => "write a last-level table into own memory, and have it linked",
            Attack::ForgeDirectory => "the same with a page directory",
            Attack::ForgeUpper => "the same with a table right below the root",
            Attack::TableAsMemory => {
                "map an own page table as if it were memory, and write an entry there"
            }
            Attack::Zero => "have it zeroed, as memory is that was just allocated",
            Attack::ResetCore => "reset a core",
            Attack::UnmaskedInterrupt => "send a core an interrupt that cannot be masked",
            Attack::PanicInterrupt => {
                "send a core the interrupt by which its own kernel tells a panic"
            }
            Attack::StoreCommand => "reset a core by stores into the own interrupt controller",
            Attack::StoreGate => "store into an own interrupt gate",
            Attack::StoreSegment => "store into an own segment descriptor",
            Attack::MaskBoard => "mask an interrupt of the board's controller",
            Attack::ChooseDevice => "choose a register of a device on the bus",
            Attack::ChangeSettings => "change what is kept while the machine is off",
            Attack::ChangeCaching => "change how this processor caches memory",
            Attack::ResetMachine => "reset the machine by its reset register",
            Attack::ResetByKeyboard => "reset the machine by the keyboard's controller",
            Attack::FastReset => "reset the machine by the fast reset",
            Attack::SwitchOff => "switch the machine off",
            Attack::TripleFault => "spoil the own interrupt gates, and fault",
            Attack::SeatOfOnes => {
                "fill the seat with ones: every length and index is as large as it can be"
            }
            Attack::SeatOfNoise => "fill the seat with noise",
        }
    }

    /// The one of this number.
    pub fn at(number: u8) -> Option<Attack> {
        Attack::ALL.into_iter().find(|it| *it as u8 == number)
    }
}

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What came of an attack, as whoever tried it can tell. Others end its incarnation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Tried {
    /// Somebody said no.
    Refused = 1,
    /// Nobody did.
    Done = 2,
    /// There is no such way on this machine.
    Unknown = 3,
}
