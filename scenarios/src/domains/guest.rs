//! A domain: a node with its services that tells its supervisor when it runs, and does what that
//! says, also what is wrong.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use core::time::Duration;

use nile_abi::{CoreId, PageSize};
use nile_bosml::Bytes;
use nile_domain::{Act, CELL, DomainId, Managing, Message};
use nile_interfaces::dataset::records::Decider;
use nile_interfaces::dataset::{DatasetClient, MOST_BYTES};
use nile_kernel::{Core, Frame};
use nile_platform::{Attack, Cause, Misbehave, Outcome, SeatLink, Seated, Tried};
use nile_services::ackermann::AckermannClient;
use nile_services::domains::managing::{get, give_up};
use nile_stl::CallResult;

use super::red;
use crate::conduct::conducts;

/// How often it looks for messages.
const LOOK: Duration = Duration::from_millis(1);

/// What a supervisor of the scenario says besides domcon's messages; each is a cell's first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Say {
    /// Call the service that the node's registry has for two numbers, the next bytes; the answer
    /// has the result.
    Compute = 0xf0,
    /// Panic on the managing core.
    Panic = 0xf1,
    /// Run on with interrupts off.
    Hang = 0xf2,
    /// What was asked for: the result of a call, or how many words; the next eight bytes.
    Answer = 0xf3,
    /// Write [`SECRET`] into all words of the node's pool that nobody has; the answer is how many.
    Write = 0xf4,
    /// How many words there are so in it.
    Find = 0xf5,
    /// Write it into all free memory in pieces of 2 MiB; the answer is how many those are.
    Fill = 0xf6,
    /// Keep a page of memory with [`KEPT`] in its first word; the answer is where that is.
    Keep = 0xf7,
    /// What the word is now.
    Look = 0xf8,
    /// Attack in this way, by number, what the next eight bytes say; the answer is what came of it.
    Attack = 0xf9,
    /// What the machine calls the managing core's hardware.
    Hardware = 0xfa,
    /// How many interrupts that cannot be masked that core had.
    Unmasked = 0xfb,
    /// Allocate and give back pages, one after the other; the answer is the nanoseconds for each.
    Pages = 0xfc,
    /// Tell the supervisor that memory was given back, which was not: the next eight bytes.
    Give = 0xfd,
    /// To the supervisor: nothing.
    Nothing = 0xfe,
    /// Keep a dataset on the disk and read it; the answer is how many bytes are as they were
    /// written.
    Store = 0xef,
    /// How many datasets there are.
    Stored = 0xee,
}

/// How many pages are allocated to find what one costs.
const PAGES: u64 = 64;

/// Bytes of a domain's dataset.
pub const STORED_BYTES: usize = 200_000;

/// What a domain keeps that no other is to change.
pub const KEPT: u64 = 0x600d_da7a;

/// What a domain writes that no other is to see.
const SECRET: u64 = 0x5ec2_e75e_c2e7_5ec2;

impl Say {
    /// The cell that says it.
    pub fn cell(self, bytes: &[u8]) -> [u8; CELL] {
        let mut cell = [0; CELL];
        cell[0] = self as u8;
        cell[1..=bytes.len()].copy_from_slice(bytes);
        cell
    }
}

/// Starts this core's part.
pub fn start<M: Misbehave>(core: &Core<M>) {
    nile_node::deploy(core);
    if !conducts(core) {
        return hang_when_away(core);
    }
    let core = core.clone();
    core.clone().spawn(async move {
        let Some(seated) = core.machine().seated() else {
            core.machine().log(format_args!("this node is no domain"));
            return core.finish(Outcome::Failure);
        };
        let Ok(mut link) = seated.seat.domain_end(seated.generation) else { return };
        if let Err(status) = core.all_running().await {
            core.machine().log(format_args!("not all cores run: {status}"));
            return core.finish(Outcome::Failure);
        }
        let mut managing = Managing::new([]);
        managing.up();
        let mut kept = None;
        loop {
            while let Some(act) = managing.take_act() {
                carry_out(&core, &seated, &mut managing, &mut link, act).await;
            }
            while let Ok(Some(message)) = link.receive() {
                match Message::decode(message.payload()) {
                    Ok((_, said)) => managing.heard(said),
                    Err(_) => {
                        keep(&core, &seated, &mut link, &mut kept, message.payload()).await;
                        obey(&core, &mut link, message.payload()).await;
                    }
                }
            }
            core.sleep(LOOK).await;
        }
    });
}

/// The core of the domain that has this hardware, or none.
fn on<M: Misbehave>(core: &Core<M>, seated: &Seated, hardware: Option<u16>) -> Option<CoreId> {
    core.machine().board().core_ids().find(|it| seated.seat.hardware(it.0) == hardware)
}

/// Has a core that is away begin on this hardware; whether it does.
async fn let_in<M: Misbehave>(core: &Core<M>, seated: &Seated, hardware: u16) -> bool {
    if on(core, seated, Some(hardware)).is_some() {
        return true;
    }
    let (Some(free), Ok(node)) = (on(core, seated, None), core.stl().node()) else { return false };
    seated.seat.set_hardware(free.0, Some(hardware));
    node.call_back_core(free).await.is_ok()
}

/// Hangs with interrupts off as soon as the managing core wants this core to be away.
fn hang_when_away<M: Misbehave>(core: &Core<M>) {
    let core = core.clone();
    core.clone().spawn(async move {
        while !core.machine().board().record(CoreId::BOOT).is_away(core.id()) {
            core.sleep(LOOK).await;
        }
        core.machine().shut_out();
        M::loop_for_ever();
    });
}

/// Does what domcon says, but that a core which is to leave hangs.
async fn carry_out<M: Misbehave>(
    core: &Core<M>,
    seated: &Seated,
    managing: &mut Managing,
    link: &mut SeatLink,
    act: Act,
) {
    match act {
        Act::Send(message) => {
            let id = DomainId { slot: seated.slot, generation: seated.generation };
            link.send(&message.encode(id));
        }
        Act::Use(extent) => get(&core.stl(), seated, extent).await,
        Act::Find(units) => managing.found(give_up(&core.stl(), seated, units).await),
        Act::Stop => core.finish(Outcome::Success),
        Act::Start(hardware) => match let_in(core, seated, hardware).await {
            true => managing.started(hardware),
            false => managing.not_started(hardware),
        },
        // It hangs as soon as it sees that, and does not leave.
        Act::Leave(hardware) => {
            let board = core.machine().board();
            let own = board.record(core.id());
            on(core, seated, Some(hardware)).into_iter().for_each(|it| own.set_away(it, true));
        }
        Act::Lost(hardware) => {
            if let (Some(lost), Ok(node)) = (on(core, seated, Some(hardware)), core.stl().node()) {
                seated.seat.set_hardware(lost.0, None);
                if let Err(status) = node.lose_core(lost) {
                    core.machine().log(format_args!("{lost} is not away: {status}"));
                }
            }
        }
    }
}

/// Keeps a page, looks at it, or reaches for what others keep.
async fn keep<M: Misbehave>(
    core: &Core<M>,
    seated: &Seated,
    link: &mut SeatLink,
    kept: &mut Option<Frame<M>>,
    cell: &[u8],
) {
    let answer = match cell {
        [kind, ..] if *kind == Say::Keep as u8 => {
            let Ok(page) = core.allocate(PageSize::Small).await else { return };
            page.words()[0].store(KEPT, Ordering::Relaxed);
            kept.insert(page).grant().start.0
        }
        [kind, ..] if *kind == Say::Look as u8 => {
            kept.as_ref().map_or(0, |page| page.words()[0].load(Ordering::Relaxed))
        }
        [kind, attack, aim @ ..] if *kind == Say::Attack as u8 => {
            let aim = aim.first_chunk().map_or(0, |it| u64::from_le_bytes(*it));
            let Some(attack) = Attack::at(*attack) else { return };
            let tried = match attack {
                Attack::FloodFrames => red::flood(core, seated).await,
                _ => red::attempt(core, seated, link, attack, aim),
            };
            match tried {
                Tried::Unknown => core.machine().attack(attack, aim) as u64,
                tried => tried as u64,
            }
        }
        [kind, unit @ ..] if *kind == Say::Give as u8 => {
            let unit = unit.first_chunk().map_or(0, |it| u64::from_le_bytes(*it));
            red::give(link, unit);
            Tried::Done as u64
        }
        [kind, ..] if *kind == Say::Hardware as u8 => {
            core.machine().board().record(core.id()).hardware_id()
        }
        [kind, ..] if *kind == Say::Pages as u8 => {
            let begun = core.now();
            for _ in 0..PAGES {
                let Ok(page) = core.allocate(PageSize::Small).await else { return };
                if page.release().await.is_err() {
                    return;
                }
            }
            core.now().since(begun).as_nanos() as u64 / PAGES
        }
        [kind, ..] if *kind == Say::Unmasked as u8 => {
            core.machine().board().record(core.id()).interrupts(Cause::Nmi)
        }
        _ => return,
    };
    // There may be no room for a while.
    while !link.send(&Say::Answer.cell(&answer.to_le_bytes())) {
        core.sleep(LOOK).await;
    }
}

async fn obey<M: Misbehave>(core: &Core<M>, link: &mut SeatLink, cell: &[u8]) {
    match cell {
        [kind, m, n, ..] if *kind == Say::Compute as u8 => {
            let answer = match AckermannClient::find(&core.stl()).await {
                Ok(client) => client.compute((*m).into(), (*n).into()).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(value) => {
                    link.send(&Say::Answer.cell(&value.to_le_bytes()));
                }
                Err(error) => core.machine().log(format_args!("no answer: {error}")),
            }
        }
        [kind, ..] if *kind == Say::Write as u8 || *kind == Say::Find as u8 => {
            let words = of_pool(core, *kind == Say::Write as u8);
            link.send(&Say::Answer.cell(&words.to_le_bytes()));
        }
        [kind, ..] if *kind == Say::Fill as u8 => {
            let pieces = fill(core).await;
            link.send(&Say::Answer.cell(&pieces.to_le_bytes()));
        }
        [kind, ..] if *kind == Say::Store as u8 || *kind == Say::Stored as u8 => {
            let answer = match *kind == Say::Store as u8 {
                true => store(core).await,
                false => stored(core).await,
            };
            match answer {
                Ok(answer) => drop(link.send(&Say::Answer.cell(&answer.to_le_bytes()))),
                Err(error) => core.machine().log(format_args!("no dataset: {error}")),
            }
        }
        [kind, ..] if *kind == Say::Panic as u8 => panic!("the supervisor wants it"),
        [kind, ..] if *kind == Say::Hang as u8 => {
            core.machine().shut_out();
            M::loop_for_ever();
        }
        _ => {}
    }
}

/// The service of the domain's disk, when it is there.
async fn datasets<M: Misbehave>(core: &Core<M>) -> DatasetClient {
    loop {
        match DatasetClient::find(&core.stl()).await {
            Ok(found) => return found,
            Err(_) => core.sleep(LOOK).await,
        }
    }
}

/// Keeps a dataset, and reads it: so many bytes are as they were written.
async fn store<M: Misbehave>(core: &Core<M>) -> CallResult<u64> {
    let datasets = datasets(core).await;
    let content: Vec<u8> = (0..STORED_BYTES).map(|at| (at * 31 / 8) as u8).collect();
    let draft = datasets.create("own", 1, 0, Decider::Here, 0).await?.draft;
    for (at, piece) in content.chunks(MOST_BYTES).enumerate() {
        datasets.write(draft, (at * MOST_BYTES) as u64, Bytes::from(piece)).await?;
    }
    let kept = datasets.commit(draft).await?;
    let mut same = 0;
    for (at, piece) in content.chunks(MOST_BYTES).enumerate() {
        let (at, length) = ((at * MOST_BYTES) as u64, piece.len() as u32);
        let read = datasets.read(&kept.name, kept.epoch, kept.attempt, at, length).await?.bytes.0;
        same += read.iter().zip(piece).filter(|(read, wanted)| read == wanted).count() as u64;
    }
    Ok(same)
}

/// How many datasets the domain's disk has.
async fn stored<M: Misbehave>(core: &Core<M>) -> CallResult<u64> {
    Ok(datasets(core).await.list(0).await?.len() as u64)
}

/// Takes all memory that there is in pieces of 2 MiB, writes [`SECRET`] into it, and gives it back:
/// how many pieces that were.
async fn fill<M: Misbehave>(core: &Core<M>) -> u64 {
    let mut pieces = Vec::new();
    while let Ok(piece) = core.allocate(PageSize::Large).await {
        piece.words().iter().for_each(|word| word.store(SECRET, Ordering::Relaxed));
        pieces.push(piece);
    }
    let count = pieces.len() as u64;
    for piece in pieces {
        if let Err(status) = piece.release().await {
            core.machine().log(format_args!("a piece of memory does not go: {status}"));
        }
    }
    count
}

/// How many words of the free buffers of the node's pool are the secret, perhaps after it was
/// written there. Buffers are given as they are, so this sees what was in the memory before.
fn of_pool<M: Misbehave>(core: &Core<M>, writes: bool) -> u64 {
    let Some(pool) = core.pool() else { return 0 };
    let mut buffers: Vec<_> = core::iter::from_fn(|| pool.alloc_any()).collect();
    let mut found = 0;
    for buffer in &mut buffers {
        for word in buffer.as_chunks_mut().0 {
            if writes {
                *word = SECRET.to_le_bytes();
            }
            found += u64::from(*word == SECRET.to_le_bytes());
        }
    }
    found
}
