//! What is said between nodes, and how it fares on the way.

use std::time::Duration;

use nile_abi::NodeId;
use nile_job::{AttemptId, Peer, PieceId, Standing, ToKeeper, ToMaster, ToWorker, WorkerId};

use super::cluster::{Cluster, Event};
use super::work::Record;

/// The host of the user who has submitted the job, which is no node.
pub const USER: NodeId = NodeId(0);

/// A message, or the data of a piece.
#[derive(Clone, Debug)]
pub enum Letter {
    ToWorker(WorkerId, ToWorker),
    ToMaster(ToMaster),
    Peer(WorkerId, Peer),
    Piece {
        to: WorkerId,
        piece: PieceId,
        by: AttemptId,
        records: Vec<Record>,
    },
    /// To a keeper.
    Keep(ToKeeper),
    /// To a keeper's node: to its master, if it has one.
    Cancel,
    /// To a keeper: how does the job stand?
    Ask(WorkerId),
    Standing(WorkerId, Standing),
}

impl Letter {
    /// What sort of letter it is, for the trace.
    pub fn kind(&self) -> u8 {
        match self {
            Letter::ToWorker(..) => 1,
            Letter::ToMaster(_) => 2,
            Letter::Peer(..) => 3,
            Letter::Piece { .. } => 4,
            Letter::Keep(_) => 5,
            Letter::Cancel => 7,
            Letter::Ask(_) => 10,
            Letter::Standing(..) => 11,
        }
    }
}

impl Cluster {
    /// Whether what one host sends can reach another.
    pub fn reaches(&self, from: NodeId, to: NodeId) -> bool {
        let side = |node: NodeId| self.sides.as_ref().map(|sides| sides[node.0 as usize]);
        side(from) == side(to)
    }

    /// Sends a letter. Within a node nothing is lost.
    pub fn post(&mut self, from: NodeId, to: NodeId, letter: Letter) {
        if from == to {
            let at = self.now + Duration::from_micros(20);
            return self.plan(at, Event::Letter(to, letter));
        }
        if !self.reaches(from, to) {
            return;
        }
        for delay in self.weather.delays(&mut self.random) {
            self.plan(self.now + delay, Event::Letter(to, letter.clone()));
        }
    }
}
