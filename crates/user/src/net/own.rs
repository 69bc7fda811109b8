//! A stack of the package's own, over the node's frames.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::sync::atomic::AtomicU64;

use nile_abi::ethernet::HEADER_BYTES;
use nile_abi::{Instant, MacAddress, NodeId, Status};
use nile_interfaces::frames::{Attachment, FramesClient};
use nile_net::{Advertised, Lease, Memory, Settings, Stack, Stream, Wide, kept};
use nile_stl::{CallError, CallResult, Stl};

use crate::threads::Runtime;

/// Frames that may wait to be sent before a socket for datagrams waits.
pub(super) const WAITING: usize = 64;

/// The stack, and the frames that it lives on.
pub(super) struct Own<'s> {
    pub node: NodeId,
    pub frames: FramesClient,
    /// What the package names itself by to the service.
    pub ticket: u64,
    /// What nobody can predict.
    pub secret: [u64; 2],
    pub stack: RefCell<Stack<'s>>,
    /// Where a lease of its address is kept.
    pub lease: &'s [AtomicU64],
    /// The rules of its filter that the node's configuration has.
    pub rules: String,
    /// Connections that nobody has accepted, by port, for those with a listener.
    pub backlogs: RefCell<BTreeMap<u16, VecDeque<Stream<'s>>>>,
    /// Connections to ports without a listener, which an earlier incarnation had, and since when.
    pub unclaimed: RefCell<Vec<(Instant, Stream<'s>)>>,
}

impl<'s> Own<'s> {
    /// The stack over the memory of connections, with the lease that is kept.
    pub async fn attach(
        stl: &Stl,
        words: &'s [AtomicU64],
        runtime: &Runtime<'s>,
    ) -> CallResult<Own<'s>> {
        let frames = FramesClient::find(stl).await?;
        let attached = frames.attach().await?;
        let lease = super::lease_keep(runtime, &attached);
        let stack = stack(&attached, words, lease, stl.host().now())?;
        Ok(Own {
            node: NodeId(attached.node),
            frames,
            ticket: attached.ticket,
            secret: [attached.seed, attached.salt],
            stack: RefCell::new(stack),
            lease,
            rules: attached.rules,
            backlogs: RefCell::default(),
            unclaimed: RefCell::default(),
        })
    }

    /// Takes connections to a port; `false` if there is a listener.
    pub fn listen(&self, port: u16) -> bool {
        let mut backlogs = self.backlogs.borrow_mut();
        if backlogs.contains_key(&port) {
            return false;
        }
        let mut unclaimed = self.unclaimed.borrow_mut();
        let claimed = unclaimed.extract_if(.., |it| it.1.peer().local == port);
        backlogs.insert(port, claimed.map(|it| it.1).collect::<VecDeque<_>>());
        self.stack.borrow_mut().listen(port);
        true
    }

    /// Takes no more of them, and ends those that nobody has accepted.
    pub fn unlisten(&self, port: u16) {
        self.stack.borrow_mut().unlisten(port);
        let left = self.backlogs.borrow_mut().remove(&port);
        left.into_iter().flatten().for_each(|stream| stream.abort());
    }
}

/// The stack of a node's interface that is attached, over the memory of connections, and with the
/// lease that is kept, and what routers have said, if an address follows from either.
pub fn stack<'s>(
    attached: &Attachment,
    words: &'s [AtomicU64],
    lease: &[AtomicU64],
    now: Instant,
) -> CallResult<Stack<'s>> {
    let seed = [attached.seed, attached.salt];
    let memory = Memory::new(words, seed).ok_or_else(super::no_memory)?;
    if attached.address == 0 && !attached.leases {
        return Err(CallError::new(Status::Invalid, "this node has no address"));
    }
    let [_, _, mac @ ..] = attached.mac.to_be_bytes();
    let gateway = Some(Ipv4Addr::from_bits(attached.gateway));
    let (lease, advertised) = parts_of(lease);
    let wide = match attached.wide_prefix {
        _ if attached.advertised => Wide::Advertised(Advertised::load(advertised, now)),
        0 => Wide::None,
        prefix => {
            let [high, low] = [attached.wide_high, attached.wide_low].map(u128::from);
            Wide::Is(Ipv6Addr::from_bits(high << 64 | low), prefix)
        }
    };
    let settings = Settings {
        mac: MacAddress(mac),
        address: Ipv4Addr::from_bits(attached.address),
        prefix: attached.prefix,
        gateway,
        resolver: gateway,
        wide,
        max_packet: (attached.max_frame as usize).saturating_sub(HEADER_BYTES).clamp(576, 1500),
    };
    Ok(match attached.leases {
        true => Stack::leasing(settings, Lease::load(lease, now), memory, now),
        false => Stack::new(settings, memory, now),
    })
}

/// The memory of a lease, and that of what routers say.
fn parts_of(words: &[AtomicU64]) -> (&[AtomicU64], &[AtomicU64]) {
    words.split_at_checked(kept::BYTES / 8).unwrap_or((words, &[]))
}

/// Keeps the lease that a stack has, and what it has heard of routers, if that is something else
/// than before.
pub fn keep_lease(stack: &Stack<'_>, words: &[AtomicU64], now: Instant) {
    let (lease, advertised) = parts_of(words);
    if let Some(heard) = stack.advertised()
        && Advertised::load(advertised, now) != *heard
    {
        heard.store(advertised);
    }
    match stack.lease() {
        Some(had) if Lease::load(lease, now) != Some(*had) => had.store(lease),
        Some(_) => {}
        None => Lease::clear(lease),
    }
}
