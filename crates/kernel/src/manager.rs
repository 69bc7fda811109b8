//! The management core's part of the kernel: it owns the node's memory, sets channels up, moves
//! their receivers, and notices when a core restarts.
//!
//! Every core has one control channel to it and one from it. What a core asks is answered in the
//! order in which it came, within the pass that drains it, except a move, which waits for the
//! sender's fence. The services of the NileOS paper (III.B) stand on this.

mod channels;
mod keeps;
pub(crate) mod links;
mod memory;
mod runs;
mod watch;

use alloc::vec::Vec;

use nile_abi::call::UserSlot;
use nile_abi::{CoreId, EndpointId, Generation, KeepName, PageSize, Status};
use nile_memory::MemoryKind;
use nile_order::SortedSet;
use nile_platform::image_memory::Change;
use nile_platform::{
    CorePhase, Grant, Handoff, Line, Machine, Manager as _, NodeDescription, NodePhase, WakeMode,
};
use nile_ring::{Message, Wake};

use crate::config::Config;
use crate::control::{self, Event, Reply, Request};
use crate::report::{MemoryReport, RegionReport};
use channels::Channels;
use links::Links;
use memory::{Heard, Memory, Places};
use watch::Watch;
pub(crate) use watch::watch;

type Tables<M> = <<M as Machine>::Manager as nile_platform::Manager>::Tables;

/// The node as its management core knows it.
pub struct Manager<M: Machine> {
    own: CoreId,
    /// How the receivers on each core are woken.
    wakes: Vec<Wake>,
    links: Links,
    channels: Channels,
    memory: Memory<Tables<M>>,
    /// The memory of the node's pool, if it has one.
    pool: Option<Grant>,
    /// Regions that the configuration asks for.
    regions: Vec<(KeepName, u64)>,
    node: NodeDescription,
    watch: Watch,
}

impl<M: Machine> Manager<M> {
    /// The manager of the node that `machine`'s boot path handed over.
    pub fn new(machine: &M, manager: &M::Manager, config: &Config) -> Manager<M> {
        let Handoff { node, physical, tables } = manager.handoff();
        let own = machine.core();
        let places = Places { shared: M::Manager::SHARED_BASE, huge: manager.huge_base() };
        let wake = |core: CoreId| match machine.wake_mode() {
            WakeMode::Signalled if !config.is_dedicated(core) => Wake::Signal,
            _ => Wake::Quiet,
        };
        Manager {
            own,
            wakes: machine.board().core_ids().map(wake).collect(),
            links: Links::attach(machine),
            channels: Channels::new(machine),
            memory: Memory::new(physical, tables, places, own),
            pool: None,
            regions: config.regions.clone(),
            node,
            watch: Watch::default(),
        }
    }

    /// Says how every control channel's receiver is woken, tells the cores that an earlier
    /// incarnation of this core is gone, and opens the node for requests.
    pub fn open_for_business(&mut self, machine: &M, pool: Option<Grant>) {
        self.pool = pool;
        let board = machine.board();
        for core in board.core_ids() {
            // No core has sent yet, or the entries are as they were: no fence is needed.
            self.place(links::to_core(core), core, machine);
            self.place(links::to_manager(core), self.own, machine);
        }
        let generation = machine.generation();
        if generation != Generation::FIRST {
            self.memory.expect_word_of(board.core_ids());
            self.recover_keeps(machine);
            self.watch.want();
            for core in board.core_ids() {
                self.links.post(core, control::EVENT, &Event::Hello { generation }.encode());
                // Also a core whose package computes, and which looks at nothing meanwhile.
                self.links.urge(core);
            }
        }
        if generation == Generation::FIRST {
            self.make_regions(machine);
        }
        board.set_phase(NodePhase::Up);
        for core in board.core_ids() {
            board.notifier().doorbells().wake(core, machine);
        }
        self.links.flush(machine);
    }

    /// Says that `endpoint` is on `home` now, and makes `home` look at it.
    fn place(&mut self, endpoint: EndpointId, home: CoreId, machine: &M) {
        self.channels.place(endpoint, home, self.wakes[home.index()], machine);
    }

    /// Ends the loops of all cores.
    pub fn stop_node(&mut self, machine: &M) {
        let board = machine.board();
        board.set_phase(NodePhase::Stopping);
        for core in board.core_ids() {
            board.notifier().doorbells().wake(core, machine);
        }
    }

    /// Whether a core has sent something, or has restarted.
    pub fn is_ready(&self, machine: &M) -> bool {
        self.links.is_ready() || self.links.next_restarted(machine.board()).is_some()
    }

    /// One pass: restarts first, then every core's requests.
    pub fn turn(&mut self, machine: &M) -> bool {
        let mut found = false;
        while let Some(core) = self.links.next_restarted(machine.board()) {
            found = true;
            self.core_down(machine, core);
        }
        while let Some((core, message)) = self.links.next_message() {
            found = true;
            self.receive(machine, core, &message);
        }
        self.links.flush(machine) || found
    }

    /// A message from `core`; this core's own come here directly.
    pub fn receive(&mut self, machine: &M, core: CoreId, message: &Message) {
        if message.kind() != control::REQUEST {
            return;
        }
        let Some((number, request)) = Request::decode(message.payload()) else { return };
        if let Request::Started { generation } = request {
            // It may have restarted since this pass looked.
            if self.links.has_restarted(machine.board(), core) {
                self.core_down(machine, core);
            }
            self.links.introduce(core, generation);
            // What an earlier incarnation's package saw this one's first must not.
            if let Some(pool) = self.pool {
                UserSlot::all().for_each(|slot| self.memory.hide_pool(pool, core, slot));
            }
            return;
        }
        // What came before the introduction is from an incarnation that is gone.
        if !self.links.is_introduced(core) {
            return;
        }
        if let Some(result) = self.handle(machine, core, number, request).transpose() {
            self.reply(core, number, result);
        }
    }

    /// The next message that waits for this core itself.
    pub fn take_local(&mut self) -> Option<Message> {
        self.links.take_local(self.own)
    }

    fn reply(&mut self, core: CoreId, number: u64, result: Result<Reply, Status>) {
        if number != control::UNANSWERED {
            self.links.post(core, control::REPLY, &control::encode_reply(number, result));
        }
    }

    fn event(&mut self, core: CoreId, event: Event) {
        self.links.post(core, control::EVENT, &event.encode());
    }

    /// Does what `core` asks. `Ok(None)`: the answer comes later.
    fn handle(
        &mut self,
        machine: &M,
        core: CoreId,
        number: u64,
        request: Request,
    ) -> Result<Option<Reply>, Status> {
        let reply = match request {
            Request::Flushed => {
                if self.memory.heard_of(core)? == Heard::All {
                    self.all_heard(machine);
                }
                return Ok(None);
            }
            Request::HoldsUser { grant, at, access } => {
                self.memory.adopt_user(grant, core, at, access)?;
                self.watch.want();
                return Ok(None);
            }
            Request::Holds { grant } => {
                self.memory.adopt(grant, core)?;
                return Ok(None);
            }
            Request::Rejoin { channel, end, peer, endpoint, tag, grant } => {
                // An end that no task has accepted yet is mapped, but not attached.
                self.memory.adopt(grant, core)?;
                self.rejoin(machine, core, (channel, end), (peer, endpoint, tag, grant));
                return Ok(None);
            }
            Request::Open { to, tag, cells } => self.open(machine, core, to, tag, cells)?,
            Request::Close { channel, end } => self.close(channel, end, core)?,
            Request::Move { channel, to } => {
                return self.move_receiver(machine, core, number, channel, to);
            }
            Request::Fenced { channel } => {
                self.finish_move(machine, channel, core);
                return Ok(None);
            }
            Request::Allocate { size } => {
                let grant = self.memory.take_frame(size, core)?;
                self.give(machine, grant, &[core])?
            }
            Request::AllocateRun { bytes } => {
                if bytes >= PageSize::Large.bytes() {
                    return Err(Status::Invalid);
                }
                let grant = self.memory.take_run(bytes)?;
                self.give(machine, grant, &[core])?
            }
            Request::MapUser { grant, at, access } => {
                self.memory.map_user(grant, core, at, access)?;
                self.watch.want();
                Reply::Done
            }
            Request::StopPackage { core, package } => {
                self.order(machine, core, Event::StopPackage { package })?
            }
            Request::EndCore { core } => self.order(machine, core, Event::End)?,
            Request::Leave { core, patience_ms, is_away } => {
                if core == self.own {
                    return Err(Status::Denied);
                }
                let told = self.order(machine, core, Event::Leave { patience_ms })?;
                machine.board().record(self.own).set_away(core, is_away);
                told
            }
            Request::CallBack { core } => {
                if core.index() >= machine.board().cores() {
                    return Err(Status::NotFound);
                }
                machine.board().record(self.own).set_away(core, false);
                if let Some(manager) = machine.manager() {
                    manager.call_back(core);
                }
                Reply::Done
            }
            Request::Assign { core, roles } => {
                let board = machine.board();
                if core.index() >= board.cores() {
                    return Err(Status::NotFound);
                }
                if board.record(core).phase() != CorePhase::Away {
                    return Err(Status::Invalid);
                }
                board.assign(core, roles);
                Reply::Done
            }
            Request::Drive { line, core } => self.drive(machine, line, core)?,
            Request::Watch => {
                self.watch.want();
                return Ok(None);
            }
            Request::ShowPool { slot, shown } => {
                let pool = self.pool.ok_or(Status::NotFound)?;
                match shown {
                    true => self.memory.show_pool(pool, core, slot)?,
                    false => self.memory.hide_pool(pool, core, slot),
                }
                Reply::Done
            }
            Request::Keep => self.find_keep(machine, core)?,
            Request::EnterKeep { number, piece, at } => {
                self.enter_keep(machine, core, (number, piece), at)?
            }
            Request::DropKeep => self.drop_keep(machine, core)?,
            Request::Join { channel, grant } => self.join(channel, grant, core)?,
            Request::Release { grant, at: None } => {
                Reply::Granted { grant: self.memory.unshare(grant, core)? }
            }
            Request::Release { grant, at: Some(at) } => {
                match self.memory.unmap_user(grant, core, at)? {
                    true => Reply::Granted { grant },
                    false => Reply::Done,
                }
            }
            Request::Invalidated { grant } => {
                self.memory.acknowledge(grant, core)?;
                Reply::Done
            }
            Request::Statistics => self.memory.statistics(),
            Request::Region { index } => self.region(index)?,
            Request::GiveUpMemory { most } => {
                let reply = self.memory.give_up(most)?;
                if let (Reply::Region { start, bytes, .. }, Some(manager)) =
                    (reply, machine.manager())
                {
                    manager.given_up(Grant { start, bytes });
                }
                reply
            }
            Request::CallBackMemory { most } => self.memory.call_back(most)?,
            Request::GetMemory { grant } => self.memory.get(grant)?,
            // Handled before.
            Request::Started { .. } => return Ok(None),
        };
        Ok(Some(reply))
    }

    /// Has another core drive a device, from its next incarnation on.
    fn drive(&mut self, machine: &M, line: Line, core: CoreId) -> Result<Reply, Status> {
        let board = machine.board();
        let from = board.driver(line).ok_or(Status::NotFound)?;
        if core.index() >= board.cores() {
            return Err(Status::NotFound);
        }
        let runs = |core: CoreId| board.record(core).phase() != CorePhase::Away;
        if runs(from) || runs(core) {
            return Err(Status::Invalid);
        }
        if from != core {
            let mappings = machine.manager().and_then(|manager| manager.mappings(line));
            self.memory.move_device(&mappings.ok_or(Status::Denied)?, from, core)?;
            board.set_driver(line, Some(core));
        }
        Ok(Reply::Done)
    }

    /// Keeps memory of an image, which a core has entered in its tables without holding it.
    pub fn keep_image(&mut self, grant: Grant) -> Result<(), Status> {
        self.memory.keep(grant)
    }

    /// Frees it: no core's tables have it any more.
    pub fn drop_image(&mut self, grant: Grant) -> Result<(), Status> {
        self.memory.drop_kept(grant)
    }

    /// Changes what the tables of a core that is away have of its image; all of it or nothing.
    pub fn change_image(&mut self, core: CoreId, change: &Change) -> Result<(), Status> {
        self.memory.exchange(core, change)
    }

    /// Clears a grant and enters it in the tables of `cores`; all of it or nothing.
    fn give(&mut self, machine: &M, grant: Grant, cores: &[CoreId]) -> Result<Reply, Status> {
        if let Some(manager) = machine.manager() {
            manager.zero(grant);
        }
        for core in cores {
            if let Err(status) = self.memory.share(grant, *core) {
                self.take_back(grant, cores);
                return Err(status);
            }
        }
        Ok(Reply::Granted { grant })
    }

    /// Takes a grant from every core that has it, and from those that it was about to be given.
    fn take_back(&mut self, grant: Grant, cores: &[CoreId]) {
        for core in SortedSet::from_iter(cores) {
            self.revoke(grant, *core);
        }
        // Where a core is told to forget it, that core's acknowledgement frees it.
        if let Err(status) = self.memory.free_if_unused(grant) {
            debug_assert!(false, "a grant that was just made is not known: {status}");
        }
    }

    /// Takes a grant out of a core's tables and tells the core to forget it.
    fn revoke(&mut self, grant: Grant, core: CoreId) {
        if self.memory.unshare(grant, core).is_ok() || self.memory.is_leaving(grant, core) {
            self.event(core, Event::Revoked { grant });
        }
    }

    /// A core has a new incarnation: what the old one had is closed, and its memory is to be
    /// forgotten by the new one before anybody else gets it.
    fn core_down(&mut self, machine: &M, core: CoreId) {
        let record = machine.board().record(core);
        let kind = record.fault().map_or("no reason", |fault| fault.kind_name());
        self.links.renew(machine, core);
        let stopped = self.links.is_out(core);
        if stopped {
            let how = if record.phase() == CorePhase::Away { "is away" } else { "has stopped" };
            machine.log(format_args!("core {core} {how} after {kind}; the node goes on"));
        } else {
            let generation = record.generation();
            let what = format_args!("core {core} restarted as {generation} after {kind}");
            machine.log(format_args!("{what}; the node goes on"));
        }
        self.channels.nobody_waits(core);
        for channel in self.channels.of(core) {
            self.close_dead(machine, channel, core);
        }
        for grant in self.memory.held_by(core) {
            self.revoke(grant, core);
            // A core that has stopped touches nothing any more, and says nothing.
            if stopped && let Err(status) = self.memory.acknowledge(grant, core) {
                machine.log(format_args!("{grant:?} is not given back: {status}"));
            }
        }
        match self.memory.heard_of(core) {
            Ok(Heard::All) => self.all_heard(machine),
            Ok(Heard::More) => {}
            Err(status) => machine.log(format_args!("{core}'s memory is not given back: {status}")),
        }
        let generation = machine.generation();
        if generation != Generation::FIRST {
            // It may have begun before it could hear of this incarnation.
            self.event(core, Event::Hello { generation });
        }
    }

    /// Every core has told this incarnation what it has.
    fn all_heard(&mut self, machine: &M) {
        self.close_untold();
        let generation = machine.generation();
        for core in self.memory.sweep() {
            // It forgets every translation and says so.
            self.event(core, Event::Hello { generation });
        }
    }

    /// Tells a core to end something, and makes the core look.
    fn order(&mut self, machine: &M, core: CoreId, event: Event) -> Result<Reply, Status> {
        if core.index() >= machine.board().cores() {
            return Err(Status::NotFound);
        }
        if self.links.is_out(core) {
            return Err(Status::Dead);
        }
        self.event(core, event);
        self.links.urge(core);
        Ok(Reply::Done)
    }

    fn region(&self, index: u64) -> Result<Reply, Status> {
        let index = usize::try_from(index).map_err(|_| Status::NotFound)?;
        let region = self.node.memory.regions().get(index).ok_or(Status::NotFound)?;
        Ok(Reply::Region {
            start: region.start,
            bytes: region.bytes,
            usable: region.kind == MemoryKind::Usable,
        })
    }

    /// The node as the boot path found it.
    pub fn node(&self) -> &NodeDescription {
        &self.node
    }

    /// The memory part of the boot report.
    pub fn memory_report(&self) -> MemoryReport {
        let region = |region: &nile_memory::MemoryRegion| RegionReport {
            start: region.start.0,
            bytes: region.bytes,
            kind: region.kind.name().into(),
        };
        MemoryReport {
            regions: self.node.memory.regions().iter().map(region).collect(),
            ..self.memory.report()
        }
    }
}
