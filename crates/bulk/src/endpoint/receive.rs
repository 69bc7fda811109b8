//! From a frame to what it changes. A frame is believed in steps: form, destination, seal, check,
//! incarnations; only then does it reach a transfer.

use alloc::boxed::Box;
use alloc::vec::Vec;

use nile_abi::{Instant, MacAddress, Status};

use super::{Endpoint, Memory, News};
use crate::event::{Event, IncomingId, OutgoingId, Transfer, Why};
use crate::incoming::{Incoming, Verdict, blocks_of};
use crate::outgoing::Answer;
use crate::pace::wire_bytes;
use crate::peers::{Ended, Standing, is_before};
use crate::seal::{OpenError, Sealer};
use crate::shown::Shown;
use crate::wire::{Announce, Body, Credit, Data, Frame, Header, TAG_BYTES, clear_checksum};

impl Endpoint {
    /// Takes a frame that has come, Ethernet header included. One that is not a good frame for
    /// this endpoint changes a counter. `sealer` is asked if the endpoint's frames are sealed.
    pub fn receive(
        &mut self,
        now: Instant,
        frame: &[u8],
        memory: &mut dyn Memory,
        sealer: &mut dyn Sealer,
    ) {
        let Ok(frame) = Frame::parse(frame) else {
            self.counters.malformed += 1;
            return;
        };
        if frame.header.destination != self.settings.node
            || frame.header.source == self.settings.node
        {
            self.counters.elsewhere += 1;
            return;
        }
        if frame.sealed != self.settings.sealed {
            self.counters.unsealed += 1;
            return;
        }
        let unchecked = self.settings.link.trusted && frame.checksum == 0;
        if !unchecked && !frame.checksum_holds(self.settings.checksum) {
            self.counters.corrupt += 1;
            return;
        }
        if !frame.sealed {
            return self.believe(now, &frame.header, frame.from, frame.data(), memory);
        }
        let mut opened = core::mem::take(&mut self.scratch);
        opened.clear();
        opened.extend_from_slice(frame.bytes);
        match open(&frame, &mut opened, sealer) {
            Ok(data) => self.believe(now, &frame.header, frame.from, data, memory),
            Err(OpenError::NoKey) => self.counters.no_key += 1,
            Err(OpenError::Forged) => self.counters.forged += 1,
            Err(OpenError::Replayed) => self.counters.replayed += 1,
        }
        self.scratch = opened;
    }

    /// Takes a frame that is what its sender has sent.
    fn believe(
        &mut self,
        now: Instant,
        header: &Header,
        from: MacAddress,
        data: &[u8],
        memory: &mut dyn Memory,
    ) {
        let (node, generation) = (header.source, header.source_generation);
        match self.peers.hear(node, generation, from) {
            Standing::Current => {}
            Standing::Restarted => {
                self.fail_dead(node, |it| it.is_some_and(|it| it < generation));
            }
            Standing::Stale => {
                self.counters.stale += 1;
                return;
            }
            Standing::NoRoom => {
                self.counters.busy += 1;
                return;
            }
        }
        let for_any = header.destination_generation.0 == 0;
        if !for_any && header.destination_generation != self.settings.generation {
            self.counters.stale += 1;
            return self.refuse(header, Status::Dead);
        }
        self.counters.received += 1;
        let id = IncomingId { from: node, generation, number: header.transfer };
        match header.body {
            Body::Announce(announce) => self.take_announcement(now, id, header, &announce, data),
            Body::Credit(credit) => self.take_credit(now, header, &credit, data),
            Body::Data(block) => self.take_block(now, id, header, &block, data, memory),
            Body::Cancel { status, by_sender } => {
                let why = match status {
                    Status::Dead => Why::Dead,
                    status => Why::Cancelled(status),
                };
                let outgoing = self.outgoing.get(&header.transfer);
                match by_sender {
                    // The number is of a transfer of its predecessor, which is gone by now.
                    true if why == Why::Dead => {}
                    true => self.fail(Transfer::In(id), why, None),
                    false if outgoing.is_some_and(|it| it.to == node) => {
                        self.fail(Transfer::Out(OutgoingId(header.transfer)), why, None);
                    }
                    false => {}
                }
            }
        }
    }

    /// Tells the sender of a frame that its transfer is not there. A cancellation is not answered.
    fn refuse(&mut self, header: &Header, status: Status) {
        let by_sender = match header.body {
            Body::Announce(_) | Body::Data(_) => false,
            Body::Credit(_) => true,
            Body::Cancel { .. } => return,
        };
        let body = Body::Cancel { status, by_sender };
        let (to, generation) = (header.source, header.source_generation);
        self.reply(self.header(to, generation, header.transfer, body));
    }

    fn take_announcement(
        &mut self,
        now: Instant,
        id: IncomingId,
        header: &Header,
        announce: &Announce,
        shown: &[u8],
    ) {
        if self.peers.is_old(&id) {
            self.counters.stale += 1;
            return;
        }
        if is_before(id.number, announce.oldest) {
            self.counters.nonsense += 1;
            return;
        }
        if self.peers.note_oldest(id.from, announce.oldest) {
            self.end_older(id, announce.oldest);
        }
        if let Some(incoming) = self.incoming.get_mut(&id) {
            let before = incoming.on_the_way();
            let makes_sense = incoming.announced(announce);
            self.pace.account(before, incoming.on_the_way());
            if !makes_sense {
                self.counters.nonsense += 1;
                return;
            }
            incoming.heard = now;
            match incoming.is_complete() {
                true => self.complete(id),
                false => {
                    self.want(id);
                    self.say(id);
                }
            }
            return;
        }
        if self.is_over(id, header) {
            return;
        }
        let Some(block) = self.block().map(|own| own.min(announce.block)) else {
            return self.refuse(header, Status::Invalid);
        };
        let limits = &self.settings.limits;
        if self.incoming.len() >= limits.incoming || self.peers.ends(id.from) >= limits.ended {
            self.counters.busy += 1;
            return self.refuse(header, Status::Busy);
        }
        let bytes = announce.total.unwrap_or(0);
        if bytes > 0 && blocks_of(bytes, block) == u32::MAX {
            return self.refuse(header, Status::Invalid);
        }
        // The largest frame of the transfer has as many bytes beside its data as ours.
        let overhead = self.settings.link.max_frame - usize::from(self.block().unwrap_or(block));
        let wire = wire_bytes(overhead.min(256) + usize::from(block));
        let mut incoming = Incoming::new(now, announce, block, wire, self.pace.patience());
        // What does not name all of it is of no use.
        incoming.shown = Shown::parse(shown).filter(|it| Some(it.total()) == announce.total);
        self.wake_at(incoming.expires());
        self.incoming.insert(id, Box::new(incoming));
        self.say(id);
        self.news.push_back(News::Event(Event::Announced {
            transfer: id,
            source_core: announce.source_core,
            core: announce.core,
            tag: announce.tag,
            label: announce.label,
            total: announce.total,
        }));
    }

    /// The sender's transfers before `oldest` are over there: those that are not over here were
    /// cancelled.
    fn end_older(&mut self, id: IncomingId, oldest: u32) {
        let from_there = self.incoming.iter().map(|(id, _)| *id).filter(|it| it.from == id.from);
        let older: Vec<IncomingId> = from_there.filter(|it| is_before(it.number, oldest)).collect();
        for id in older {
            self.fail(Transfer::In(id), Why::Cancelled(Status::NotFound), None);
        }
    }

    /// Whether a transfer is over; then its sender, who sends of it, is told how it ended.
    fn is_over(&mut self, id: IncomingId, header: &Header) -> bool {
        if self.peers.is_old(&id) {
            self.counters.stale += 1;
            return true;
        }
        let Some(ended) = self.peers.ended(&id) else { return false };
        match ended {
            Ended::Complete(_) => {
                let body = ended.body();
                let (to, generation) = (header.source, header.source_generation);
                self.reply(self.header(to, generation, header.transfer, body));
            }
            Ended::Cancelled(status) => self.refuse(header, status),
        }
        true
    }

    fn take_credit(&mut self, now: Instant, header: &Header, credit: &Credit, bitmap: &[u8]) {
        let number = header.transfer;
        let generation = header.source_generation;
        let outgoing = self
            .outgoing
            .get_mut(&number)
            .filter(|it| it.to == header.source && it.generation.is_none_or(|it| it == generation));
        let Some(outgoing) = outgoing else {
            // Its receiver waits for more; that all has arrived it may say again.
            if !credit.complete {
                self.refuse(header, Status::NotFound);
            }
            return;
        };
        outgoing.generation = Some(generation);
        let before = outgoing.arrived();
        let transfer = Transfer::Out(OutgoingId(number));
        match outgoing.credit(now, credit, bitmap) {
            Answer::Nonsense => self.counters.nonsense += 1,
            Answer::TooLong => {
                let why = Why::CancelledHere(Status::Invalid);
                self.fail(transfer, why, Some(Status::Invalid));
            }
            Answer::Complete => {
                let bytes = outgoing.offered();
                self.outgoing.remove(&number);
                self.news.push_back(News::Event(Event::Finished { transfer, bytes }));
            }
            Answer::Goes => {
                if outgoing.arrived() > before && !outgoing.progress_due {
                    outgoing.progress_due = true;
                    self.news.push_back(News::Progress(transfer));
                }
                self.goes_on(number, false);
            }
        }
    }

    fn take_block(
        &mut self,
        now: Instant,
        id: IncomingId,
        header: &Header,
        block: &Data,
        bytes: &[u8],
        memory: &mut dyn Memory,
    ) {
        let Some(incoming) = self.incoming.get_mut(&id) else {
            if !self.is_over(id, header) {
                self.refuse(header, Status::NotFound);
            }
            return;
        };
        let (way, arrived) = (incoming.on_the_way(), incoming.arrived());
        let verdict = incoming.data(now, block, bytes.len());
        self.pace.account(way, incoming.on_the_way());
        match verdict {
            Verdict::Nonsense => {
                self.counters.nonsense += 1;
                return;
            }
            Verdict::Duplicate => self.counters.duplicate += 1,
            Verdict::Beyond => self.counters.beyond += 1,
            Verdict::New(offset) => {
                if memory.write(id, offset, bytes).is_err() {
                    return self.fail(Transfer::In(id), Why::MemoryGone, Some(Status::NotFound));
                }
                self.counters.delivered_bytes += bytes.len() as u64;
            }
        }
        incoming.heard = now;
        if incoming.is_complete() {
            return self.complete(id);
        }
        let news = incoming.arrived() > arrived && !incoming.progress_due;
        incoming.progress_due |= news;
        let (say, expires) = (incoming.wants_word(), incoming.expires());
        self.wake_at(expires);
        if news {
            self.news.push_back(News::Progress(Transfer::In(id)));
        }
        self.want(id);
        if say {
            self.say(id);
        }
    }
}

/// Opens a frame of which `copy` has the bytes; gives the data there.
fn open<'a>(
    frame: &Frame<'_>,
    copy: &'a mut [u8],
    sealer: &mut dyn Sealer,
) -> Result<&'a [u8], OpenError> {
    clear_checksum(copy);
    let (header, rest) = copy.split_at_mut(frame.header_bytes);
    let (data, tag) = rest.split_last_chunk_mut::<TAG_BYTES>().ok_or(OpenError::Forged)?;
    let (from, generation) = (frame.header.source, frame.header.source_generation);
    sealer.open(from, generation, header, data, tag)?;
    Ok(data)
}
