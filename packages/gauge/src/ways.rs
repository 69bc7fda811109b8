//! How two packages talk. Each way carries numbers, with the same bytes behind each.

use alloc::vec;
use alloc::vec::Vec;

use nile_abi::CoreId;
use nile_rfcom::{Post, Rfcom};
use nile_ring::{Message, PAYLOAD_BYTES, Region};
use nile_user::{ChannelReceiver, ChannelSender, Runtime, SEATS_OF_DOMAIN, SharedRegion};

use crate::{Context, Measured, NO_ROOM, PATIENCE, refused};

/// Members of a post, and ports: as the package `rf` divides the region.
const MEMBERS: usize = 16;
const PORTS: usize = 4;

/// The channels' tag, and their cells: as many as a ring of a post has.
const TAG: u32 = 9;
const CELLS: u32 = nile_rfcom::CELLS as u32;

/// Bytes of a number.
const NUMBER: usize = size_of::<u64>();

/// One end of a way.
pub trait Way {
    /// Bytes that go with each number, the number's included.
    fn bytes(&self) -> usize;
    /// Sends a number, unless there is no room now.
    fn send(&mut self, number: u64) -> bool;
    /// The next number, if one has come.
    fn receive(&mut self) -> Option<u64>;
}

/// Messages between members that share memory (FICM).
pub struct Posted {
    post: Post,
    peer: usize,
}

impl Posted {
    pub fn open(shared: &SharedRegion<'_>, peer: usize) -> Measured<Posted> {
        let own = shared.first_seat() / SEATS_OF_DOMAIN;
        let post = Post::attach(&half(shared, 1)?, MEMBERS, own.into()).ok_or(NO_ROOM)?;
        Ok(Posted { post, peer })
    }
}

impl Way for Posted {
    fn bytes(&self) -> usize {
        PAYLOAD_BYTES
    }

    #[inline]
    fn send(&mut self, number: u64) -> bool {
        self.post.send(self.peer, &message(number)).is_ok()
    }

    #[inline]
    fn receive(&mut self) -> Option<u64> {
        let (from, message) = self.post.receive()?;
        (from == self.peer).then(|| number(message.payload()))
    }
}

/// Packets over such memory (RFcom).
pub struct Packets {
    channel: nile_rfcom::Channel,
    out: Vec<u8>,
    back: Vec<u8>,
}

impl Packets {
    pub fn open(shared: &SharedRegion<'_>, port: usize, bytes: usize) -> Measured<Packets> {
        let rfcom = Rfcom::attach(half(shared, 0)?, PORTS, shared.seat()).ok_or(NO_ROOM)?;
        let channel = rfcom.open(port).map_err(|_| NO_ROOM)?;
        let bytes = bytes.clamp(NUMBER, channel.most_bytes());
        Ok(Packets { channel, out: vec![0; bytes], back: vec![0; bytes] })
    }
}

impl Way for Packets {
    fn bytes(&self) -> usize {
        self.out.len()
    }

    #[inline]
    fn send(&mut self, number: u64) -> bool {
        self.out[..NUMBER].copy_from_slice(&number.to_le_bytes());
        self.channel.write(&self.out).is_ok()
    }

    #[inline]
    fn receive(&mut self) -> Option<u64> {
        let length = self.channel.read(&mut self.back).ok()?;
        (length == self.back.len()).then(|| number(&self.back))
    }
}

/// Channels of one node, there and back.
pub struct Channels<'s> {
    out: ChannelSender<'s>,
    back: ChannelReceiver<'s>,
}

impl<'s> Channels<'s> {
    pub fn open(context: &Context<'s>, core: CoreId) -> Measured<Channels<'s>> {
        let runtime: &Runtime<'s> = &context.runtime;
        let out = runtime.open_channel(core, TAG, CELLS).map_err(refused)?;
        let until = context.now()? + PATIENCE;
        let back = runtime.accept_channel(TAG, until).map_err(refused)?;
        Ok(Channels { out, back })
    }
}

impl Way for Channels<'_> {
    fn bytes(&self) -> usize {
        PAYLOAD_BYTES
    }

    #[inline]
    fn send(&mut self, number: u64) -> bool {
        self.out.try_send(&message(number)).is_ok()
    }

    #[inline]
    fn receive(&mut self) -> Option<u64> {
        let message = self.back.try_receive().ok()??;
        Some(number(message.payload()))
    }
}

/// One half of the region: the first is for packets, the second for messages.
fn half(shared: &SharedRegion<'_>, which: usize) -> Measured<Region> {
    let half = shared.region().len() / 2;
    shared.region().slice(which * half, half).ok_or(NO_ROOM)
}

/// A full message.
#[inline]
fn message(number: u64) -> Message {
    let words = [number.to_le_bytes(); PAYLOAD_BYTES / NUMBER];
    Message::new(1, words.as_flattened()).expect("it is as long as a message can be")
}

/// The number in front; that of what is shorter is none that anybody sends.
#[inline]
fn number(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(u64::MAX - 1, |first| u64::from_le_bytes(*first))
}
