//! Records of new jobs, as they come to their keepers: in pieces, as calls have room for little.

use alloc::rc::Rc;
use alloc::vec::Vec;

use nile_abi::{CoreId, NodeId, Status};
use nile_bosml::Bytes;
use nile_job::{JobId, Keeper, Record, Settings};
use nile_order::SortedMap;
use nile_stl::{CallError, CallResult};

use super::board::{Board, MOST_OPEN};
use super::cluster::{SOON, spawn};
use super::hosted::Hosted;
use super::shelf::{MOST_BYTES, pack, unpack};
use nile_interfaces::job::JobClient;

/// The most records that come at a time.
const MOST: usize = 8;

/// Bytes of a piece.
pub const PIECE: usize = 48 << 10;

/// Records that have come in part; the oldest give way.
#[derive(Default)]
pub struct Arriving(SortedMap<JobId, Vec<u8>>);

impl Arriving {
    /// Takes a piece that begins at byte `at`, of `of` in all. The record, if it is whole.
    fn take(
        &mut self,
        id: JobId,
        at: usize,
        of: usize,
        piece: &[u8],
    ) -> CallResult<Option<Record>> {
        let wrong = |what| CallError::new(Status::Invalid, what);
        if of > MOST_BYTES || at.saturating_add(piece.len()) > of {
            return Err(wrong("the record is longer than any"));
        }
        if at == 0 {
            self.0.remove(&id);
            if self.0.len() >= MOST {
                self.0.pop_first();
            }
            self.0.insert(id, Vec::new());
        }
        let bytes = self.0.get_mut(&id).filter(|bytes| bytes.len() == at);
        let bytes = bytes.ok_or_else(|| wrong("a piece of the record is missing"))?;
        bytes.extend_from_slice(piece);
        if bytes.len() < of {
            return Ok(None);
        }
        let record = unpack(&self.0.remove(&id).unwrap_or_default())?;
        match record.job.id == id {
            true => Ok(Some(record)),
            false => Err(wrong("this is no record of the job")),
        }
    }
}

impl Board {
    /// A piece of a record that this node is to keep; durable here when the last one was taken.
    pub async fn found(
        self: &Rc<Self>,
        id: JobId,
        at: usize,
        of: usize,
        piece: &[u8],
    ) -> CallResult<()> {
        if self.job(id).is_some() {
            return Ok(());
        }
        if !self.is_loaded() {
            return Err(CallError::new(Status::Busy, "this node's disk is not mounted yet"));
        }
        if self.open() >= MOST_OPEN {
            return Err(CallError::new(Status::Busy, "this node keeps too many jobs"));
        }
        let record = self.arriving.borrow_mut().take(id, at, of, piece)?;
        match record {
            Some(record) => self.take_in(record).await,
            None => Ok(()),
        }
    }

    /// Keeps a new job's record.
    pub async fn take_in(self: &Rc<Self>, record: Record) -> CallResult<()> {
        self.shelf.save(&record).await?;
        let node = self.cluster.node();
        let other = || CallError::new(Status::Invalid, "this node is no keeper of the job");
        let keeper = Keeper::found(self.now(), node, record, Settings::default());
        self.host(keeper.ok_or_else(other)?);
        Ok(())
    }

    /// A keeper does not know a job. If the node that it was submitted to has died over that,
    /// nobody can tell whether it was begun, and only with all of those who are left it can go on:
    /// they are to keep it.
    pub fn give_late(self: &Rc<Self>, hosted: &Hosted, node: NodeId) {
        let new = |record: &Record| Record::new(record.job.clone(), record.splits.clone());
        let record = hosted.with(new);
        let Some((first, others)) = record.job.keepers.split_first() else { return };
        if !hosted.is_open() || !self.cluster.is_dead(*first) || !others.contains(&node) {
            return;
        }
        let board = self.clone();
        spawn(&self.stl, async move {
            // It is asked again, and does not know it again, if this came to nothing.
            let _ = board.give(node, &record).await;
        });
    }

    /// Has another node keep a record.
    pub async fn give(&self, node: NodeId, record: &Record) -> CallResult<()> {
        let bytes = pack(record)?;
        let at = self.cluster.at(node, CoreId::BOOT);
        let client = JobClient::find_at(&self.stl.with_patience(SOON), at).await?;
        let of = bytes.len() as u32;
        for (place, piece) in bytes.chunks(PIECE).enumerate() {
            let at = (place * PIECE) as u32;
            client.found(record.job.id.0, at, of, Bytes::from(piece)).await?;
        }
        Ok(())
    }
}
