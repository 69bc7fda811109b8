//! The frames' bytes: a view that checks every field once, and the valid values.
//!
//! [`Frame::parse`] takes any bytes and either refuses them or gives a view whose accessors cannot
//! fail; [`Header::emit`] writes the same. Network byte order throughout. docs/ipioe.md has the
//! tables; nothing here knows keys, peers or time.

mod emit;
mod parse;

use core::fmt;

use nile_abi::{CoreId, Generation, NodeId};

use crate::checksum::Checksum;
pub use emit::{authenticated, set_crc};
pub use parse::Frame;

/// The version of the protocol that this crate speaks.
pub const VERSION: u8 = 1;

/// Bytes of the common header.
pub const COMMON_BYTES: usize = 24;

/// Bytes of the seal's tag, after the data.
pub use nile_seal::TAG_BYTES;

/// Bytes of the largest header: a hello's.
pub const MAX_HEADER: usize = COMMON_BYTES + 40 + 16 + 8;

/// Bytes of the largest header of a frame that carries a message: a request's with all extensions.
pub const MESSAGE_HEADER: usize = COMMON_BYTES + 16 + 8 + 8 + 8 + 8;

/// The most bytes that a seal covers besides the data.
pub const AUTHENTICATED_BYTES: usize = 6 + MAX_HEADER;

/// The most bytes of a message, in however many frames.
pub const MAX_MESSAGE: usize = 64 << 10;

/// The most segments of a message: what one word of bits can follow.
pub const MAX_SEGMENTS: usize = 64;

/// Frames shorter than this are padded by the link; what follows the frame proper is ignored.
pub const MIN_ETHERNET: usize = 60;

/// Opcodes.
pub mod opcode {
    /// A call.
    pub const REQUEST: u8 = 1;
    /// The end of a call, as its callee tells it.
    pub const REPLY: u8 = 2;
    /// To every node at once.
    pub const BROADCAST: u8 = 3;
    /// To one core, without acknowledgement.
    pub const GOSSIP: u8 = 4;
    /// What has come and need not be sent again.
    pub const ACKNOWLEDGE: u8 = 5;
    /// Who I am, and that I live.
    pub const HELLO: u8 = 6;
}

/// Flags, by their masks.
pub mod flag {
    /// Sealed: a sequence in the header, a tag after the data.
    pub const SEALED: u16 = 1 << 0;
    /// The data are in the binary form.
    pub const ENCODED: u16 = 1 << 1;
    /// One of several frames of a message.
    pub const SEGMENTED: u16 = 1 << 2;
    /// For another network, by a gateway.
    pub const ROUTED: u16 = 1 << 3;
    /// How long the caller waits, and which calls it still waits for.
    pub const TIMED: u16 = 1 << 4;
    /// The sender's boot nonce.
    pub const NAMED: u16 = 1 << 5;
    /// A package of the sender asks.
    pub const PACKAGE: u16 = 1 << 6;
    /// Whoever operates the cluster asks.
    pub const OPERATOR: u16 = 1 << 7;
}

/// Who of a node asks, as that node says.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Asker {
    /// A kernel.
    #[default]
    Kernel,
    /// A package.
    Package,
    /// Whoever operates the cluster, by a tool.
    Operator,
}

impl Asker {
    /// The flags that say so.
    fn flags(self) -> u16 {
        match self {
            Asker::Kernel => 0,
            Asker::Package => flag::PACKAGE,
            Asker::Operator => flag::OPERATOR,
        }
    }

    /// Whom these flags tell of; nobody can be two.
    fn of(flags: u16) -> Option<Asker> {
        let flags = flags & (flag::PACKAGE | flag::OPERATOR);
        [Asker::Kernel, Asker::Package, Asker::Operator].into_iter().find(|it| it.flags() == flags)
    }
}

/// Bits of a hello's state.
pub mod state {
    /// The sender wants a hello back.
    pub const ASKS: u16 = 1 << 0;
    /// The echo is valid.
    pub const ECHOES: u16 = 1 << 1;
    /// The receiver's generation is not above the one that the sender knows.
    pub const REFUSES: u16 = 1 << 2;
    /// The sender ends: nothing of it comes any more.
    pub const LEAVES: u16 = 1 << 3;
}

/// What distinguishes a boot from all others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BootNonce(pub [u8; 16]);

/// One of the frames of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Which one, from zero.
    pub index: u16,
    /// How many there are.
    pub count: u16,
    /// Bytes of the whole message.
    pub total: u32,
}

/// Networks of a routed frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// Where it comes from.
    pub source: u32,
    /// Where it goes.
    pub destination: u32,
}

/// What acknowledged ids mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// Calls that have ended at their caller; bit k is the call k + 1 after the acknowledged id.
    Ended = 0,
    /// Segments of a request; bit k is the one k + 1 after the first that is missing.
    Request = 1,
    /// Segments of a reply, likewise.
    Reply = 2,
}

/// What a frame says, by its opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// A call, or a segment of one.
    Request {
        /// Who is called.
        to: NodeId,
        /// Which incarnation of it; zero for any.
        generation: Generation,
        /// Whose call it is.
        source_core: CoreId,
        /// Who shall do it.
        core: CoreId,
        /// Which service.
        service: u16,
        /// Which of its methods.
        method: u16,
        /// Microseconds that the caller still waits.
        patience: u32,
        /// Every call of the sender's to this node before this one has ended.
        oldest: u32,
        /// Who asks.
        asker: Asker,
    },
    /// The end of a call.
    Reply {
        /// Who called.
        to: NodeId,
        /// Which incarnation of it.
        generation: Generation,
        /// Who did it.
        source_core: CoreId,
        /// Whose call it was.
        core: CoreId,
        /// Which service.
        service: u16,
        /// How it ended: a number of `nile_abi::Status`, or one of a later version.
        status: u16,
    },
    /// To every node.
    Broadcast {
        /// The sender's boot.
        nonce: BootNonce,
    },
    /// To one core.
    Gossip {
        /// Which node.
        to: NodeId,
        /// Which of its cores.
        core: CoreId,
    },
    /// What has come.
    Acknowledge {
        /// Whose messages these are.
        to: NodeId,
        /// Which incarnation of it.
        generation: Generation,
        /// The first id, or the message whose segments these are.
        id: u32,
        /// What follows it.
        bitmap: u32,
        /// What the two mean.
        subject: Subject,
        /// The first segment that is missing.
        segment: u16,
    },
    /// Who I am.
    Hello {
        /// For whom; zero for everybody.
        to: NodeId,
        /// The receiver's generation as the sender knows it; zero if it does not.
        known: Generation,
        /// Bits of [`state`].
        state: u16,
        /// The message id of a hello or broadcast of the receiver's that the sender got.
        echo: u32,
        /// The boot nonce that it carried.
        echo_nonce: BootNonce,
        /// No frame sealed for the receiver has had this sequence or a higher one yet.
        sequence: u64,
        /// The sender's boot.
        nonce: BootNonce,
    },
}

/// A whole header, valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The message.
    pub id: u32,
    /// Who sent the frame.
    pub node: NodeId,
    /// Which incarnation of it.
    pub generation: Generation,
    /// Whether the data are in the binary form.
    pub encoded: bool,
    /// The message's segment, if it has several.
    pub segment: Option<Segment>,
    /// The gateways' business.
    pub route: Option<Route>,
    /// The seal's sequence, if the frame is sealed.
    pub sequence: Option<u64>,
    /// What it says.
    pub body: Body,
}

/// Why bytes are no frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// Shorter than its headers say, or longer than padding explains.
    Length,
    /// Not of this protocol, or of another version.
    Version,
    /// An opcode that this version does not know.
    Opcode,
    /// Flags that nobody defined, or that do not go with the opcode.
    Flags,
    /// A field, reserved ones included, has a value that it must not have.
    Field,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Malformed::Length => "the frame's length and its headers disagree",
            Malformed::Version => "not a frame of this version of the protocol",
            Malformed::Opcode => "an unknown opcode",
            Malformed::Flags => "flags that do not go with the opcode",
            Malformed::Field => "a field has a value that it must not have",
        })
    }
}

impl core::error::Error for Malformed {}

/// The flags that frames of an opcode may have, those that they must have, and the bytes of the
/// opcode's header.
fn layout(op: u8) -> Option<(u16, u16, usize)> {
    use flag::*;
    let message = SEALED | ENCODED | SEGMENTED | ROUTED;
    Some(match op {
        opcode::REQUEST => (message | TIMED | PACKAGE | OPERATOR, TIMED, 16),
        opcode::REPLY => (message, 0, 16),
        opcode::BROADCAST => (SEALED | ENCODED | NAMED, NAMED, 0),
        opcode::GOSSIP => (message, 0, 8),
        opcode::ACKNOWLEDGE => (SEALED | ROUTED, 0, 20),
        opcode::HELLO => (SEALED | NAMED, NAMED, 40),
        _ => return None,
    })
}

/// Bytes of the extension that each flag brings, in their order in the header.
const EXTENSIONS: [(u16, usize); 5] = [
    (flag::SEGMENTED, 8),
    (flag::ROUTED, 8),
    (flag::TIMED, 8),
    (flag::NAMED, 16),
    (flag::SEALED, 8),
];

/// The CRC of a header and its data, taking its own field as zero.
fn crc(bytes: &[u8], checksum: Checksum) -> u32 {
    checksum(checksum(checksum(0, &bytes[..12]), &[0; 4]), &bytes[16..])
}
