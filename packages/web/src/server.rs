//! The loop: frames are exchanged, connections have their turn, and what is due is done.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::convert::Infallible;
use core::time::Duration;

use nile_abi::{Instant, MacAddress, NodeId, Status, ip};
use nile_bosml::Bytes;
use nile_interfaces::frames::{FrameCounts, FramesClient, pack, unpack};
use nile_net::memory::RECEIVE_BYTES;
use nile_net::{Memory, Settings, Stack, Stream};
use nile_stl::{CallError, CallResult};
use nile_user::Services;

use crate::answer::{Answer, Status as Http};
use crate::data::Data;
use crate::pages::{self, Figures};
use crate::request;
use crate::session::{self, Note};
use crate::shown::{self, Shown};

/// How long it waits for frames before it looks whether anybody calls it.
const LOOK: Duration = Duration::from_millis(20);

/// How long a call may take: what waits longer for a disk or another node is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a connection may do nothing.
const IDLE: Duration = Duration::from_secs(60);

/// How often what is shown is brought up to date.
const SHOWN: Duration = Duration::from_millis(100);

/// Room for which it is worth to ask for bytes.
const WORTH: usize = 16 << 10;

/// Bytes of an Ethernet header.
const ETHERNET: usize = nile_abi::ethernet::HEADER_BYTES;

/// What a connection has done last.
struct Activity {
    offsets: (u64, u64),
    at: Instant,
}

struct Server<'m> {
    stack: Stack<'m>,
    data: Data,
    node: u32,
    active: BTreeMap<u64, Activity>,
    requests: u64,
    bytes: u64,
    frames: FrameCounts,
}

/// Serves on this port. Fails if a service that it needs cannot be had.
pub async fn serve<'m>(
    services: &Services,
    port: u16,
    memory: impl FnOnce([u64; 2]) -> Option<Memory<'m>>,
) -> CallResult<Infallible> {
    let stl = services.stl().with_patience(PATIENCE);
    let host = stl.host().clone();
    let frames = FramesClient::find(&stl).await?;
    let attached = frames.attach().await?;
    let no_memory = || CallError::new(Status::NoMemory, "the keep is too small");
    let memory = memory([attached.seed, attached.salt]).ok_or_else(no_memory)?;
    let no_address = || CallError::new(Status::Invalid, "this node has no address");
    let address = ip::address_of(NodeId(attached.node)).ok_or_else(no_address)?;
    let [_, _, mac @ ..] = attached.mac.to_be_bytes();
    let settings = Settings {
        mac: MacAddress(mac),
        address,
        prefix: ip::PREFIX,
        gateway: Some(ip::GATEWAY),
        max_packet: (attached.max_frame as usize).saturating_sub(ETHERNET).clamp(576, 1500),
    };
    let mut stack = Stack::new(settings, memory, host.now());
    stack.listen(port);
    let (shown, own) = (Shown::of(services.stl())?, &shown::REGISTRATION);
    shown.update(address, &stack);
    let none = || CallError::new(Status::Invalid, "the service has no half of user mode");
    services.publish(own, own.user.ok_or_else(none)?)?;
    services.serve();

    let mut server = Server {
        stack,
        data: Data::new(&stl),
        node: attached.node,
        active: BTreeMap::new(),
        requests: 0,
        bytes: 0,
        frames: FrameCounts::default(),
    };
    let mut update = host.now();
    let mut batch = Vec::new();
    let mut left: Option<Vec<u8>> = None;
    loop {
        batch.clear();
        while let Some(frame) = left.take().or_else(|| server.stack.transmit()) {
            if !pack(&mut batch, &frame) {
                left = Some(frame);
                break;
            }
        }
        let now = host.now();
        let due = server.stack.next_due(now).map_or(LOOK, |due| due.since(now).min(LOOK));
        let patience = if left.is_some() { Duration::ZERO } else { due };
        let came = frames
            .exchange(attached.ticket, Bytes(batch[..].into()), patience.as_micros() as u32)
            .await?;
        let now = host.now();
        for frame in unpack(&came.frames.0) {
            server.stack.receive(now, frame);
        }
        let streams: Vec<Stream<'m>> = server.stack.streams().collect();
        for stream in streams {
            server.turn(&stream, now).await;
        }
        let now = host.now();
        server.stack.turn(now);
        if now >= update {
            server.frames = frames.counts().await?;
            shown.update(address, &server.stack);
            let known: Vec<u64> = server.stack.streams().map(|it| it.serial()).collect();
            server.active.retain(|serial, _| known.contains(serial));
            update = now + SHOWN;
            // Calls to this package are taken while it waits: not long, but for once.
            host.sleep_until(now).await;
        }
    }
}

impl Server<'_> {
    /// A connection's turn.
    async fn turn(&mut self, stream: &Stream<'_>, now: Instant) {
        if stream.is_closed() {
            return;
        }
        let Some(note) = Note::of(stream) else { return stream.abort() };
        note.catch_up(stream);
        let offsets = (stream.received(), stream.acknowledged());
        let active = self.active.entry(stream.serial()).or_insert(Activity { offsets, at: now });
        if active.offsets != offsets {
            *active = Activity { offsets, at: now };
        } else if now.since(active.at) > IDLE {
            return stream.abort();
        }
        if !note.is_done(stream) {
            return self.send(stream, &note).await;
        }
        if note.closes {
            return stream.close();
        }
        self.read(stream).await;
    }

    /// Gives more of a dataset to be sent. One that cannot be read ends the connection, as its
    /// length was said.
    async fn send(&mut self, stream: &Stream<'_>, note: &Note) {
        let Some(piece) = &note.piece else { return };
        let sent = note.sent(stream);
        let room = stream.room();
        if room < WORTH && (room as u64) < piece.bytes - sent {
            return;
        }
        match self.data.read(piece, sent, room).await {
            Ok(bytes) => {
                stream.stage(0, &bytes);
                stream.produce(stream.produced() + bytes.len() as u64);
                self.bytes += bytes.len() as u64;
            }
            Err(error) => {
                let host = self.data.stl().host();
                host.log(format_args!("{}: {error}", piece.name));
                stream.abort();
            }
        }
    }

    /// Reads the next request, if it has come, and begins to answer it.
    async fn read(&mut self, stream: &Stream<'_>) {
        let mut bytes = [0; RECEIVE_BYTES];
        let count = stream.peek(&mut bytes);
        if count == 0 {
            if stream.has_ended() {
                stream.close();
            }
            return;
        }
        let (answer, length, stays, is_head) = match request::parse(&bytes[..count]) {
            Ok(Some(request)) => {
                let answer = pages::answer(&request, &self.data, &self.figures()).await;
                (answer, request.length, request.stays, request.is_head)
            }
            Ok(None) if count == RECEIVE_BYTES => {
                let why = "a request's head has less than 8 KiB here";
                (Answer::refusal(Http::HeadersTooLarge, why), count, false, false)
            }
            Ok(None) if stream.has_ended() => return stream.close(),
            Ok(None) => return,
            Err(status) => {
                let why = "GET and HEAD of HTTP/1.1 are served, without a body";
                (Answer::refusal(status, why), count, false, false)
            }
        };
        if session::begin(stream, &answer, length, stays, is_head) {
            self.requests += 1;
        }
    }

    fn figures(&self) -> Figures {
        let now = self.data.stl().host().now();
        Figures {
            node: self.node,
            uptime: now.as_nanos() as f64 / 1e9,
            connections: self.stack.streams().count(),
            requests: self.requests,
            bytes: self.bytes,
            counts: self.stack.counts(),
            frames: self.frames,
        }
    }
}
