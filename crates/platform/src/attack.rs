//! What a domain's kernel tries against what is not its own, so that scenarios see that it gets
//! nowhere. The names are those of ways; what each aims at, the scenario says.

use core::fmt;

/// What a way of attack leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// A word of memory, by its physical address.
    Memory,
    /// The same, but that it is read: whoever attacks sees what is there.
    Secret,
    /// A core, by the machine's name for it.
    Core,
    /// Something of the machine that every core sees: whoever attacks sees whether it changed.
    Machine,
    /// The whole machine, which it would switch off or reset.
    Power,
    /// The supervisor, by what a domain shares with it: messages, frames, how far it has come. No
    /// guard keeps a domain from writing there; whoever reads it believes nothing.
    Seat,
    /// The ledger, by messages to the supervisor.
    Messages,
    /// The network, by frames in the domain's loop.
    Frames,
    /// A parked core, by its number among those that there are to give.
    Parked,
    /// Nobody but the supervisor that wants the domain's core back.
    Hold,
}

/// A row for each way: what it is called, what it leads to, what whoever attacks does.
macro_rules! attacks {
    ($($variant:ident $name:literal $target:ident $what:literal;)*) => {
        /// A way to reach what a domain has not been given.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum Attack {
            $(#[doc = concat!("To ", $what, ".")] $variant,)*
        }

        impl Attack {
            /// All of them.
            pub const ALL: [Attack; [$($name),*].len()] = [$(Attack::$variant),*];

            /// What it leads to.
            pub const fn target(self) -> Target {
                match self {
                    $(Attack::$variant => Target::$target,)*
                }
            }

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Attack::$variant => $name,)*
                }
            }

            /// What whoever attacks does.
            pub const fn what(self) -> &'static str {
                match self {
                    $(Attack::$variant => $what,)*
                }
            }
        }
    };
}

attacks! {
    StoreEntry "store-entry" Memory "store an entry for it right into a page directory";
    MapSmall "map-small" Memory "ask the gate for a page of 4 KiB";
    MapLarge "map-large" Memory "ask the gate for a page of 2 MiB";
    MapHuge "map-huge" Memory "ask the gate for a page of 1 GiB that covers it";
    ForgeTable "forge-table" Memory "write a last-level table into own memory, and have it linked";
    ForgeDirectory "forge-directory" Memory "do the same with a page directory";
    ForgeUpper "forge-upper" Memory "do the same with a table right below the root";
    ForgeRoot "forge-root" Memory "write a root into own memory, and have the processor load it";
    TableAsMemory "table-as-memory" Memory
        "map an own page table as if it were memory, and write an entry there";
    Zero "zero" Memory "have it zeroed, as memory is that was just allocated";
    ResetCore "reset-core" Core "reset a core";
    UnmaskedInterrupt "unmasked-interrupt" Core "send a core an interrupt that cannot be masked";
    PanicInterrupt "panic-interrupt" Core
        "send a core the interrupt by which its own kernel tells a panic";
    InterruptAll "interrupt-all" Core
        "send all other cores of the machine such an interrupt by one command";
    StoreCommand "store-command" Core
        "reset a core by stores into the own interrupt controller";
    ForgeMessage "forge-message" Core
        "map where devices send their interrupts to, and store one for a core there";
    RouteDisk "route-disk" Core
        "ask the gate to have the own disk interrupt a core by the vector for panics";
    StoreRoute "store-route" Core
        "store that into the table of the own disk's interrupts";
    StoreGate "store-gate" Machine "store into an own interrupt gate";
    StoreSegment "store-segment" Machine "store into an own segment descriptor";
    WriteConstants "write-constants" Machine
        "make a page of constants writable that all kernels share, and write there";
    RoutePin "route-pin" Machine "map the controller of the board's interrupts, and route one";
    MoveController "move-controller" Machine
        "put the registers of the own interrupt controller over other memory";
    MaskBoard "mask-board" Machine "mask an interrupt of the board's controller";
    ChooseDevice "choose-device" Machine "choose a register of a device on the bus";
    ChangeSettings "change-settings" Machine "change what is kept while the machine is off";
    ChangeCaching "change-caching" Machine "change how this processor caches memory";
    ResetMachine "reset-machine" Power "reset the machine by its reset register";
    ResetByKeyboard "reset-by-keyboard" Power "reset the machine by the keyboard's controller";
    FastReset "fast-reset" Power "reset the machine by the fast reset";
    SwitchOff "switch-off" Power "switch the machine off";
    SleepForGood "sleep-for-good" Power "put the machine to sleep as ACPI does";
    TripleFault "triple-fault" Power "spoil the own interrupt gates, and fault";
    UnmapStacks "unmap-stacks" Power "unmap the own stacks for exceptions, and fault";
    NoGates "no-gates" Power "load an interrupt table of no gates, and fault";
    NoSegments "no-segments" Power "load segments that are none";
    ForgetNoExecute "forget-no-execute" Power
        "have the processor not know any more which pages are not executable";
    RunOwnCode "run-own-code" Power
        "write a reset of the machine into own memory, and have that executed";
    DiskOverwrites "disk-overwrites" Memory "have the own disk write there what it reads";
    DiskCopies "disk-copies" Secret "have the own disk keep what is there, and read that back";
    SeatOfOnes "seat-of-ones" Seat
        "fill the seat with ones: every length and index is as large as it can be";
    SeatOfNoise "seat-of-noise" Seat "fill the seat with noise";
    ForgedSender "forged-sender" Messages
        "give another domain's memory back in that one's name";
    GiveForeign "give-foreign" Messages "give another domain's memory back as if it were its own";
    LateMessage "late-message" Messages
        "give memory back in the name of another generation of its own place";
    OutOfRange "out-of-range" Messages "give memory and cores back that no machine has";
    FloodMessages "flood-messages" Messages "send messages without end";
    ForgedFrame "forged-frame" Frames "send a frame with another domain's address as its sender";
    LongFrame "long-frame" Frames "say that its frames are longer than any can be";
    FramesRunFar "frames-run-far" Frames "count far more frames than it has sent";
    FramesRunBack "frames-run-back" Frames "count fewer frames than were taken";
    FloodFrames "flood-frames" Frames "send frames to another domain without end";
    EnterCore "enter-core" Parked "ask the supervisor to let a core in that it was not offered";
    HangMasked "hang-masked" Hold "hang with interrupts masked, and give nothing back";
}

impl Attack {
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
