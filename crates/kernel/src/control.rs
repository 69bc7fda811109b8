//! What a core and the management core say to each other over the core's control channel: a
//! request and its reply carry a number that joins them; an event is answered by nobody.
//!
//! One message is one cell: operation (1 byte), status (1), request number (6), six words (8
//! each), little-endian. Decoding is total; what makes no sense is `None`.

mod words;

use nile_abi::call::UserSlot;
use nile_abi::{
    ChannelId, CoreId, EndpointId, Generation, PageSize, PhysAddr, RoleSet, Status, VirtAddr,
};
use nile_platform::user::Access;
use nile_platform::{Grant, Line};

use crate::packages::PackageId;
use words::{
    Words, access, channel_end, channel_word, core, decode, encode, grant, narrow, place_words,
};

/// Bytes of an encoded message.
pub const BYTES: usize = 56;

/// The kind that a request's cell carries.
pub const REQUEST: u8 = 1;
/// The kind that a reply's cell carries.
pub const REPLY: u8 = 2;
/// The kind that an event's cell carries.
pub const EVENT: u8 = 3;

/// The number of a request that nobody waits for; it is not answered.
pub const UNANSWERED: u64 = 0xffff;

/// One of a channel's two ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum End {
    /// Where messages go in.
    Sender,
    /// Where they come out.
    Receiver,
}

/// What a core asks of the management core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// The first thing that an incarnation says: whatever came before is from a dead one.
    Started { generation: Generation },
    /// The caller has executed a full fence after [`Event::Fence`].
    Fenced { channel: ChannelId },
    /// Make a channel from the caller to `to`, whose acceptor of `tag` gets the other end, of at
    /// least `cells` cells.
    Open { to: CoreId, tag: u32, cells: u32 },
    /// After [`Event::Hello`], or a [`Request::MapUser`] that failed: the caller has no stale
    /// translation of anything.
    Flushed,
    /// After [`Event::Hello`]: the caller has this grant mapped, or has yet to give it back.
    Holds { grant: Grant },
    /// After [`Event::Hello`]: the caller has this end of a channel; `peer` has the other.
    Rejoin {
        channel: ChannelId,
        end: End,
        peer: CoreId,
        endpoint: EndpointId,
        tag: u32,
        grant: Grant,
    },
    /// The caller has dropped one end of a channel.
    Close { channel: ChannelId, end: End },
    /// Move the caller's receiving end of a channel to the acceptor of its tag on `to`.
    Move { channel: ChannelId, to: CoreId },
    /// A zeroed frame of this size, mapped on the caller.
    Allocate { size: PageSize },
    /// Zeroed frames in a row for this many bytes, less than 2 MiB, mapped on the caller.
    AllocateRun { bytes: u64 },
    /// Take a grant out of the kernel half of the caller's tables and enter it in the user half.
    /// The caller then says [`Request::Invalidated`] for the kernel half. When this fails, the
    /// grant stays where it was, and the caller says [`Request::Flushed`].
    MapUser { grant: Grant, at: VirtAddr, access: Access },
    /// After [`Event::Hello`]: the caller has this grant in the user half of its tables.
    HoldsUser { grant: Grant, at: VirtAddr, access: Access },
    /// Show the node's pool in a slot of the user half of the caller's tables, or no longer. The
    /// caller forgets its translations itself.
    ShowPool { slot: UserSlot, shown: bool },
    /// End the package `package` of the core `core`, whatever that core is doing.
    StopPackage { core: CoreId, package: PackageId },
    /// End the incarnation of the core `core`, whatever that core is doing.
    EndCore { core: CoreId },
    /// Have a core leave as planned, within so long, and stay away afterwards or not.
    Leave { core: CoreId, patience_ms: u32, is_away: bool },
    /// Have a core that is away, or is to be, begin its next incarnation.
    CallBack { core: CoreId },
    /// What a core that is away is for when it comes back.
    Assign { core: CoreId, roles: RoleSet },
    /// Have another core drive a device; both are away.
    Drive { line: Line, core: CoreId },
    /// Enter a grant of the core that sends on this channel in the tables of the caller, which
    /// receives on it. `NotFound` unless both ends are open and that core has the grant.
    Join { channel: ChannelId, grant: Grant },
    /// Take a grant out of the caller's tables, in whichever half it is; or of one place in the
    /// user half alone. `Done` if it is still in another slot.
    Release { grant: Grant, at: Option<VirtAddr> },
    /// The caller has no translation of a released grant any more.
    Invalidated { grant: Grant },
    /// Find the keep that the caller's record wants, or make it.
    Keep,
    /// Enter a piece of a keep in the user half of the caller's tables. `Exists` if another core
    /// has it.
    EnterKeep { number: u32, piece: u32, at: VirtAddr },
    /// Forget that keep. `NotFound`; `Exists` while a core has it.
    DropKeep,
    /// The caller is going to ask policies: look whether one returns.
    Watch,
    /// How much memory there is, free and in tables.
    Statistics,
    /// The `index`th region of the node's memory.
    Region { index: u64 },
    /// Give up free 2 MiB collections that follow each other, so many at most.
    GiveUpMemory { most: u64 },
    /// This memory, which was given up or was never the node's, is its own from now on.
    GetMemory { grant: Grant },
    /// Collections of 2 MiB that were given up, so many at most that follow each other, are the
    /// node's again. `NotFound` if none was.
    CallBackMemory { most: u64 },
}

/// What the management core answers, besides a status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Nothing but the status.
    Done,
    /// The channel, the core that has the receiver, its place in the receiver map, and the ring's
    /// memory.
    Opened { channel: ChannelId, to: CoreId, endpoint: EndpointId, grant: Grant },
    /// Memory: newly given; or, as the answer to a close, a move or a release, memory that is no
    /// longer in the caller's tables, to be answered with [`Request::Invalidated`].
    Granted { grant: Grant },
    /// Bytes: usable in all, free; free collections: 4 KiB, 2 MiB, 1 GiB; free last-level tables.
    Statistics { total: u64, free: u64, small: u64, large: u64, huge: u64, tables: u64 },
    /// A region: start, bytes, and whether it is usable. Or memory that the node has given up.
    Region { start: PhysAddr, bytes: u64, usable: bool },
    /// A keep: its number on the board, whether it was there before, and which other core has it.
    Kept { number: u32, is_found: bool, holder: Option<CoreId> },
}

/// What the management core tells a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The receiving end of a channel, for the acceptor of `tag`.
    Attached { channel: ChannelId, endpoint: EndpointId, tag: u32, from: CoreId, grant: Grant },
    /// The other end of a channel is gone.
    Closed { channel: ChannelId },
    /// Execute a full fence and say [`Request::Fenced`]: the receiver of this channel moves.
    Fence { channel: ChannelId },
    /// Forget a grant that an earlier incarnation of this core held, and say
    /// [`Request::Invalidated`].
    Revoked { grant: Grant },
    /// The management core runs as this incarnation; what the last one owed is lost.
    Hello { generation: Generation },
    /// End this package.
    StopPackage { package: PackageId },
    /// Panic: somebody wants this incarnation to end.
    End,
    /// Leave as planned, within so long.
    Leave { patience_ms: u32 },
}

impl Request {
    fn words(self) -> (u8, Words) {
        match self {
            Request::Open { to, tag, cells } => {
                (1, [u64::from(to.0), u64::from(tag), u64::from(cells), 0, 0, 0])
            }
            Request::Close { channel, end } => (2, [channel_word(channel, end), 0, 0, 0, 0, 0]),
            Request::Move { channel, to } => {
                (3, [u64::from(channel.0), u64::from(to.0), 0, 0, 0, 0])
            }
            Request::Allocate { size } => (4, [size.bytes(), 0, 0, 0, 0, 0]),
            Request::Release { grant, at } => {
                (5, [grant.start.0, grant.bytes, at.map_or(0, |at| at.0), 0, 0, 0])
            }
            Request::Invalidated { grant } => (6, [grant.start.0, grant.bytes, 0, 0, 0, 0]),
            Request::Watch => (22, [0; 6]),
            Request::Statistics => (7, [0; 6]),
            Request::Region { index } => (8, [index, 0, 0, 0, 0, 0]),
            Request::GiveUpMemory { most } => (29, [most, 0, 0, 0, 0, 0]),
            Request::GetMemory { grant } => (30, [grant.start.0, grant.bytes, 0, 0, 0, 0]),
            Request::CallBackMemory { most } => (31, [most, 0, 0, 0, 0, 0]),
            Request::Started { generation } => (9, [u64::from(generation.0), 0, 0, 0, 0, 0]),
            Request::Fenced { channel } => (10, [u64::from(channel.0), 0, 0, 0, 0, 0]),
            Request::Flushed => (13, [0; 6]),
            Request::Holds { grant } => (11, [grant.start.0, grant.bytes, 0, 0, 0, 0]),
            Request::Rejoin { channel, end, peer, endpoint, tag, grant } => {
                let ids = [channel_word(channel, end), u64::from(peer.0), u64::from(endpoint.0)];
                (12, [ids[0], ids[1], ids[2], u64::from(tag), grant.start.0, grant.bytes])
            }
            Request::MapUser { grant, at, access } => (14, place_words(grant, at, access)),
            Request::HoldsUser { grant, at, access } => (15, place_words(grant, at, access)),
            Request::AllocateRun { bytes } => (16, [bytes, 0, 0, 0, 0, 0]),
            Request::StopPackage { core, package } => {
                (17, [u64::from(core.0), u64::from(package.0), 0, 0, 0, 0])
            }
            Request::EndCore { core } => (19, [u64::from(core.0), 0, 0, 0, 0, 0]),
            Request::Leave { core, patience_ms, is_away } => {
                (21, [u64::from(core.0), u64::from(patience_ms), u64::from(is_away), 0, 0, 0])
            }
            Request::CallBack { core } => (23, [u64::from(core.0), 0, 0, 0, 0, 0]),
            Request::Assign { core, roles } => {
                (24, [u64::from(core.0), u64::from(roles.bits()), 0, 0, 0, 0])
            }
            Request::Drive { line, core } => {
                (25, [line.index() as u64, u64::from(core.0), 0, 0, 0, 0])
            }
            Request::ShowPool { slot, shown } => {
                (20, [u64::from(shown), slot.index() as u64, 0, 0, 0, 0])
            }
            Request::Keep => (26, [0; 6]),
            Request::DropKeep => (28, [0; 6]),
            Request::EnterKeep { number, piece, at } => {
                (27, [u64::from(number), u64::from(piece), at.0, 0, 0, 0])
            }
            Request::Join { channel, grant } => {
                (18, [u64::from(channel.0), grant.start.0, grant.bytes, 0, 0, 0])
            }
        }
    }

    /// The cell's content; the reply will carry `number`, of 48 bits.
    pub fn encode(self, number: u64) -> [u8; BYTES] {
        let (operation, words) = self.words();
        encode(operation, Status::Ok, number, words)
    }

    /// The request and its number.
    pub fn decode(bytes: &[u8]) -> Option<(u64, Request)> {
        let (operation, _, number, w) = decode(bytes)?;
        let request = match operation {
            1 => Request::Open { to: core(w[0])?, tag: narrow(w[1])?, cells: narrow(w[2])? },
            2 => {
                let (channel, end) = channel_end(w[0]);
                Request::Close { channel, end }
            }
            3 => Request::Move { channel: ChannelId(narrow(w[0])?), to: core(w[1])? },
            4 => Request::Allocate {
                size: PageSize::ALL.into_iter().find(|size| size.bytes() == w[0])?,
            },
            5 => Request::Release {
                grant: grant(w[0], w[1]),
                at: (w[2] != 0).then_some(VirtAddr(w[2])),
            },
            6 => Request::Invalidated { grant: grant(w[0], w[1]) },
            22 => Request::Watch,
            7 => Request::Statistics,
            8 => Request::Region { index: w[0] },
            9 => Request::Started { generation: Generation(narrow(w[0])?) },
            10 => Request::Fenced { channel: ChannelId(narrow(w[0])?) },
            11 => Request::Holds { grant: grant(w[0], w[1]) },
            13 => Request::Flushed,
            12 => {
                let (channel, end) = channel_end(w[0]);
                Request::Rejoin {
                    channel,
                    end,
                    peer: core(w[1])?,
                    endpoint: EndpointId(narrow(w[2])?),
                    tag: narrow(w[3])?,
                    grant: grant(w[4], w[5]),
                }
            }
            14 => Request::MapUser {
                grant: grant(w[0], w[1]),
                at: VirtAddr(w[2]),
                access: access(w[3])?,
            },
            15 => Request::HoldsUser {
                grant: grant(w[0], w[1]),
                at: VirtAddr(w[2]),
                access: access(w[3])?,
            },
            16 => Request::AllocateRun { bytes: w[0] },
            17 => Request::StopPackage { core: core(w[0])?, package: PackageId(narrow(w[1])?) },
            18 => Request::Join { channel: ChannelId(narrow(w[0])?), grant: grant(w[1], w[2]) },
            19 => Request::EndCore { core: core(w[0])? },
            20 => {
                Request::ShowPool { slot: UserSlot::from_index(narrow(w[1])?)?, shown: w[0] != 0 }
            }
            21 => {
                Request::Leave { core: core(w[0])?, patience_ms: narrow(w[1])?, is_away: w[2] != 0 }
            }
            23 => Request::CallBack { core: core(w[0])? },
            24 => {
                let roles = RoleSet::from_bits(u8::try_from(w[1]).ok()?);
                Request::Assign { core: core(w[0])?, roles }
            }
            25 => {
                let line = Line::all().nth(usize::try_from(w[0]).ok()?)?;
                Request::Drive { line, core: core(w[1])? }
            }
            26 => Request::Keep,
            27 => Request::EnterKeep {
                number: narrow(w[0])?,
                piece: narrow(w[1])?,
                at: VirtAddr(w[2]),
            },
            28 => Request::DropKeep,
            29 => Request::GiveUpMemory { most: w[0] },
            30 => Request::GetMemory { grant: grant(w[0], w[1]) },
            31 => Request::CallBackMemory { most: w[0] },
            _ => return None,
        };
        Some((number, request))
    }
}

/// The cell's content of an answer to the request with this number.
pub fn encode_reply(number: u64, result: Result<Reply, Status>) -> [u8; BYTES] {
    let (operation, status, words) = match result {
        Err(status) => (1, status, [0; 6]),
        Ok(Reply::Done) => (1, Status::Ok, [0; 6]),
        Ok(Reply::Opened { channel, to, endpoint, grant: Grant { start, bytes } }) => {
            let [channel, endpoint] = [u64::from(channel.0), u64::from(endpoint.0)];
            (2, Status::Ok, [channel, endpoint, start.0, bytes, u64::from(to.0), 0])
        }
        Ok(Reply::Granted { grant }) => (3, Status::Ok, [grant.start.0, grant.bytes, 0, 0, 0, 0]),
        Ok(Reply::Statistics { total, free, small, large, huge, tables }) => {
            (4, Status::Ok, [total, free, small, large, huge, tables])
        }
        Ok(Reply::Region { start, bytes, usable }) => {
            (5, Status::Ok, [start.0, bytes, u64::from(usable), 0, 0, 0])
        }
        Ok(Reply::Kept { number, is_found, holder }) => {
            let holder = holder.map_or(0, |core| u64::from(core.0) + 1);
            (6, Status::Ok, [u64::from(number), u64::from(is_found), holder, 0, 0, 0])
        }
    };
    encode(operation, status, number, words)
}

/// The answer and the number of the request it answers.
pub fn decode_reply(bytes: &[u8]) -> Option<(u64, Result<Reply, Status>)> {
    let (operation, status, number, w) = decode(bytes)?;
    if status != Status::Ok {
        return Some((number, Err(status)));
    }
    let reply = match operation {
        1 => Reply::Done,
        2 => Reply::Opened {
            channel: ChannelId(narrow(w[0])?),
            to: CoreId(narrow(w[4])?),
            endpoint: EndpointId(narrow(w[1])?),
            grant: grant(w[2], w[3]),
        },
        3 => Reply::Granted { grant: grant(w[0], w[1]) },
        4 => {
            let [total, free, small, large, huge, tables] = w;
            Reply::Statistics { total, free, small, large, huge, tables }
        }
        5 => Reply::Region { start: PhysAddr(w[0]), bytes: w[1], usable: w[2] != 0 },
        6 => Reply::Kept {
            number: narrow(w[0])?,
            is_found: w[1] != 0,
            holder: match w[2].checked_sub(1) {
                Some(holder) => Some(core(holder)?),
                None => None,
            },
        },
        _ => return None,
    };
    Some((number, Ok(reply)))
}

impl Event {
    /// The cell's content.
    pub fn encode(self) -> [u8; BYTES] {
        let (operation, words) = match self {
            Event::Attached { channel, endpoint, tag, from, grant } => {
                let ids = [u64::from(channel.0), u64::from(endpoint.0)];
                let to = [u64::from(tag), u64::from(from.0)];
                (1, [ids[0], ids[1], to[0], to[1], grant.start.0, grant.bytes])
            }
            Event::Closed { channel } => (2, [u64::from(channel.0), 0, 0, 0, 0, 0]),
            Event::Revoked { grant } => (3, [grant.start.0, grant.bytes, 0, 0, 0, 0]),
            Event::Hello { generation } => (4, [u64::from(generation.0), 0, 0, 0, 0, 0]),
            Event::Fence { channel } => (5, [u64::from(channel.0), 0, 0, 0, 0, 0]),
            Event::StopPackage { package } => (6, [u64::from(package.0), 0, 0, 0, 0, 0]),
            Event::End => (7, [0; 6]),
            Event::Leave { patience_ms } => (8, [u64::from(patience_ms), 0, 0, 0, 0, 0]),
        };
        encode(operation, Status::Ok, 0, words)
    }

    /// The event.
    pub fn decode(bytes: &[u8]) -> Option<Event> {
        let (operation, _, _, w) = decode(bytes)?;
        Some(match operation {
            1 => Event::Attached {
                channel: ChannelId(narrow(w[0])?),
                endpoint: EndpointId(narrow(w[1])?),
                tag: narrow(w[2])?,
                from: core(w[3])?,
                grant: grant(w[4], w[5]),
            },
            2 => Event::Closed { channel: ChannelId(narrow(w[0])?) },
            3 => Event::Revoked { grant: grant(w[0], w[1]) },
            4 => Event::Hello { generation: Generation(narrow(w[0])?) },
            5 => Event::Fence { channel: ChannelId(narrow(w[0])?) },
            6 => Event::StopPackage { package: PackageId(narrow(w[0])?) },
            7 => Event::End,
            8 => Event::Leave { patience_ms: narrow(w[0])? },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: u64 = (1 << 48) - 2;
    const GRANT: Grant = Grant { start: PhysAddr(0x20_0000), bytes: 8192 };
    const AT: VirtAddr = VirtAddr(nile_abi::call::USER_BASE);

    #[test]
    fn requests_survive_the_cell() {
        let channel = ChannelId(9);
        for request in [
            Request::Open { to: CoreId(3), tag: u32::MAX, cells: 64 },
            Request::Close { channel, end: End::Sender },
            Request::Close { channel, end: End::Receiver },
            Request::Started { generation: Generation(4) },
            Request::Holds { grant: GRANT },
            Request::Flushed,
            Request::Rejoin {
                channel,
                end: End::Receiver,
                peer: CoreId(2),
                endpoint: EndpointId(600),
                tag: 1 << 31,
                grant: GRANT,
            },
            Request::Fenced { channel },
            Request::Move { channel, to: CoreId(1) },
            Request::Allocate { size: PageSize::Huge },
            Request::Release { grant: GRANT, at: None },
            Request::Release { grant: GRANT, at: Some(AT) },
            Request::Invalidated { grant: GRANT },
            Request::Watch,
            Request::Statistics,
            Request::Region { index: 5 },
            Request::MapUser { grant: GRANT, at: AT, access: Access::Execute },
            Request::HoldsUser { grant: GRANT, at: AT, access: Access::Write },
            Request::HoldsUser { grant: GRANT, at: AT, access: Access::Read },
            Request::AllocateRun { bytes: 4097 },
            Request::ShowPool { slot: UserSlot::FIRST, shown: true },
            Request::ShowPool { slot: UserSlot::FIRST, shown: false },
            Request::StopPackage { core: CoreId(3), package: PackageId(u32::MAX) },
            Request::Join { channel, grant: GRANT },
            Request::EndCore { core: CoreId(9) },
            Request::Leave { core: CoreId(9), patience_ms: u32::MAX, is_away: true },
            Request::CallBack { core: CoreId(9) },
            Request::Assign { core: CoreId(9), roles: RoleSet::ALL },
            Request::Drive { line: Line::disk(3).unwrap(), core: CoreId(9) },
            Request::Keep,
            Request::EnterKeep { number: 31, piece: 15, at: AT },
            Request::DropKeep,
            Request::GiveUpMemory { most: 9 },
            Request::GetMemory { grant: GRANT },
            Request::CallBackMemory { most: 9 },
        ] {
            assert_eq!(Request::decode(&request.encode(NUMBER)), Some((NUMBER, request)));
        }
    }

    #[test]
    fn replies_survive_the_cell() {
        let (channel, endpoint, to) = (ChannelId(1), EndpointId(2), CoreId(3));
        for result in [
            Err(Status::NoTables),
            Ok(Reply::Done),
            Ok(Reply::Opened { channel, to, endpoint, grant: GRANT }),
            Ok(Reply::Granted { grant: GRANT }),
            Ok(Reply::Statistics { total: 1, free: 2, small: 3, large: 4, huge: 5, tables: 6 }),
            Ok(Reply::Region { start: PhysAddr(4096), bytes: 1 << 40, usable: true }),
            Ok(Reply::Kept { number: 31, is_found: true, holder: Some(CoreId(0)) }),
            Ok(Reply::Kept { number: 0, is_found: false, holder: None }),
        ] {
            assert_eq!(decode_reply(&encode_reply(NUMBER, result)), Some((NUMBER, result)));
        }
    }

    #[test]
    fn events_survive_the_cell() {
        let (channel, endpoint) = (ChannelId(7), EndpointId(8));
        for event in [
            Event::Attached { channel, endpoint, tag: 3, from: CoreId(2), grant: GRANT },
            Event::Closed { channel },
            Event::Fence { channel },
            Event::Revoked { grant: GRANT },
            Event::Hello { generation: Generation(2) },
            Event::StopPackage { package: PackageId(9) },
            Event::End,
            Event::Leave { patience_ms: 2000 },
        ] {
            assert_eq!(Event::decode(&event.encode()), Some(event));
        }
    }

    #[test]
    fn nonsense_is_none() {
        assert_eq!(Request::decode(&[0; BYTES]), None);
        assert_eq!(Request::decode(&[1; 8]), None);
        assert_eq!(decode_reply(&[0xff; BYTES]), None);
        assert_eq!(Event::decode(&[0xff; BYTES]), None);
        // An access that does not exist.
        let request = Request::MapUser { grant: GRANT, at: AT, access: Access::Execute };
        let mut bytes = request.encode(1);
        bytes[32] = 3;
        assert_eq!(Request::decode(&bytes), None);
        // A frame size that does not exist.
        let mut bytes = Request::Allocate { size: PageSize::Small }.encode(1);
        bytes[8] = 1;
        assert_eq!(Request::decode(&bytes), None);
    }

    #[test]
    fn any_cell_is_none_or_says_what_its_value_says() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut garbage = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let (mut requests, mut replies, mut events) = (0, 0, 0);
        for _ in 0..20_000 {
            let mut bytes = [0; BYTES];
            for place in bytes.chunks_exact_mut(8) {
                // Mostly narrow numbers, which ids and sizes are.
                let word = garbage() >> [0, 32, 48, 63][garbage() as usize % 4];
                place.copy_from_slice(&word.to_le_bytes());
            }
            bytes[0] %= 29;
            bytes[1] %= 2;
            if let Some((number, request)) = Request::decode(&bytes) {
                assert_eq!(Request::decode(&request.encode(number)), Some((number, request)));
                requests += 1;
            }
            if let Some((number, reply)) = decode_reply(&bytes) {
                assert_eq!(decode_reply(&encode_reply(number, reply)), Some((number, reply)));
                replies += 1;
            }
            if let Some(event) = Event::decode(&bytes) {
                assert_eq!(Event::decode(&event.encode()), Some(event));
                events += 1;
            }
        }
        assert!(requests > 1000 && replies > 1000 && events > 1000);
    }
}
