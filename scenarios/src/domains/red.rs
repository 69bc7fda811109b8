//! What an attacker says and sends that is not so, by what every domain shares with its supervisor.

use core::sync::atomic::Ordering;

use nile_abi::{CoreId, Generation, MacAddress};
use nile_domain::{DomainId, Extent, Message};
use nile_kernel::Core;
use nile_platform::{Attack, Machine, Manager, SeatLink, Seated, Target, Tried};

use super::guest::Say;

/// How long one sends without end.
const FLOOD: core::time::Duration = core::time::Duration::from_millis(200);

/// How long one sends frames without end, how often it looks for room, and bytes of each.
const FLOOD_OF_FRAMES: core::time::Duration = core::time::Duration::from_millis(100);
const ROOM: core::time::Duration = core::time::Duration::from_micros(100);
const FRAME_BYTES: usize = 1000;

/// Bytes that no frame has.
const TOO_LONG: u64 = 4000;

/// How far a counter of frames is wrong.
const FAR: u64 = 1000;

/// Bits of the byte in which the addresses of the first two domains differ.
const OTHER: u8 = 3;

/// A unit of memory and whose it is, as one word: what attacks by messages aim at.
pub fn unit_of(id: DomainId, unit: u32) -> u64 {
    u64::from(unit) | u64::from(id.slot) << 32 | u64::from(id.generation.0) << 40
}

/// What such a word says.
fn unit_from(word: u64) -> (DomainId, Extent) {
    let id = DomainId { slot: (word >> 32) as u8, generation: Generation((word >> 40) as u32) };
    (id, Extent { start: word as u32, count: 1 })
}

/// Says that the unit of this word was given back, in the name of whose it is.
pub fn give(link: &mut SeatLink, word: u64) {
    let (owner, extent) = unit_from(word);
    link.send(&Message::MemoryGiven(extent).encode(owner));
}

/// Tries an attack that needs nothing of the machine but what is shared.
pub fn attempt<M: Machine>(
    core: &Core<M>,
    seated: &Seated,
    link: &mut SeatLink,
    attack: Attack,
    aim: u64,
) -> Tried {
    match attack.target() {
        Target::Messages if attack == Attack::FloodMessages => {
            let limit = core.now() + FLOOD;
            while core.now() < limit {
                link.send(&[Say::Nothing as u8]);
            }
            Tried::Done
        }
        Target::Messages => lie(seated, link, attack, aim),
        Target::Frames => miscount(seated, attack),
        Target::Parked => {
            let Some(manager) = core.machine().manager() else { return Tried::Unknown };
            seated.seat.set_hardware(1, Some(aim as u16));
            manager.call_back(CoreId(1));
            Tried::Done
        }
        _ => Tried::Unknown,
    }
}

/// Sends frames to another domain as long as there is room, for a while.
pub async fn flood<M: Machine>(core: &Core<M>, seated: &Seated) -> Tried {
    let frames = seated.seat.frames();
    let Some(own) = frames.address() else { return Tried::Unknown };
    let mut to = own;
    to.0[5] ^= OTHER;
    let mut frame = [&to.0[..], &own.0, &[0x88, 0xb5]].concat();
    frame.resize(FRAME_BYTES, 42);
    let (end, limit) = (frames.domain_end(0), core.now() + FLOOD_OF_FRAMES);
    while core.now() < limit {
        while end.put(&frame) {}
        core.sleep(ROOM).await;
    }
    Tried::Done
}

fn lie(seated: &Seated, link: &mut SeatLink, attack: Attack, aim: u64) -> Tried {
    let own = DomainId { slot: seated.slot, generation: seated.generation };
    let (owner, extent) = unit_from(aim);
    let given = Message::MemoryGiven(extent);
    match attack {
        Attack::ForgedSender => link.send(&given.encode(owner)),
        Attack::GiveForeign => link.send(&given.encode(own)),
        Attack::LateMessage => {
            let late = |generation| DomainId { generation: Generation(generation), ..own };
            let Generation(now) = own.generation;
            [now.wrapping_sub(1), now.wrapping_add(1)]
                .into_iter()
                .all(|it| link.send(&given.encode(late(it))))
        }
        Attack::OutOfRange => {
            let beyond = |start, count| Message::MemoryGiven(Extent { start, count });
            let nowhere = u32::MAX - 1;
            let all = [
                beyond(nowhere, 1),
                beyond(1 << 20, 1 << 20),
                Message::MemoryRefused(u32::MAX),
                Message::MemoryTaken(Extent { start: nowhere, count: 1 }),
                Message::CoreTaken(u16::MAX),
                Message::CoreRefused(u16::MAX),
            ];
            all.into_iter().all(|it| link.send(&it.encode(own)))
        }
        _ => return Tried::Unknown,
    };
    Tried::Done
}

/// Sends a frame, and says of it what is not so.
fn miscount(seated: &Seated, attack: Attack) -> Tried {
    let frames = seated.seat.frames();
    let Some(own) = frames.address() else { return Tried::Unknown };
    let mut sender = own;
    if attack == Attack::ForgedFrame {
        sender.0[5] ^= OTHER;
    }
    let frame = [&MacAddress::BROADCAST.0[..], &sender.0, &[0x88, 0xb5, 42]].concat();
    frames.domain_end(0).put(&frame);
    let ring = frames.to_supervisor();
    let (put, taken) = (ring.put(), ring.taken().load(Ordering::Relaxed));
    match attack {
        Attack::LongFrame => {
            let last = put.load(Ordering::Relaxed).wrapping_sub(1);
            ring.slot(last)[0].store(TOO_LONG, Ordering::Release);
        }
        Attack::FramesRunFar => {
            put.fetch_add(FAR, Ordering::Release);
        }
        Attack::FramesRunBack => put.store(taken.wrapping_sub(1), Ordering::Release),
        _ => {}
    }
    Tried::Done
}
