//! What parts of a graph write to each other, as bytes.

use alloc::vec::Vec;

use crate::bytes::{Damaged, Read, Reader, put};
use crate::part::Part;

/// The version of the bytes.
const VERSION: u64 = 1;

/// The most that one letter tells. An item takes 20 bytes at most.
pub const MOST_ITEMS: usize = 2048;

/// What letters are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// How many edges come here from vertices of the other part.
    Counts,
    /// What goes over each edge of own vertices.
    Shares,
}

/// What has become of a letter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// It came to where it was to. Of its writer this opening is the last that is known there: one
    /// that was opened before has lost its part to another.
    Taken {
        /// The number of the opening.
        writer: u64,
    },
    /// Who got it has lost its part to another that has opened it since.
    Superseded,
}

/// What a part says of itself in a round.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Summary {
    /// Whether it has swept in the round before.
    pub has_swept: bool,
    /// Whether its edges are others than in the last sweep.
    pub is_new: bool,
    /// Of that sweep: how far vertices have moved, the sum of their values, and what is rounded.
    pub moved: u128,
    pub sum: u128,
    pub rounded: u64,
    /// What was in then: events, vertices of its own, edges; and up to when it was whole.
    pub events: u64,
    pub vertices: u64,
    pub edges: u64,
    pub watermark: u64,
    /// The last publication that it knows of.
    pub publication: u64,
}

/// A letter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Letter {
    /// The number that no other graph ever had.
    pub graph: u64,
    /// How often each part had been opened, as far as the writer knew.
    pub lives: Vec<u64>,
    /// Who has written it.
    pub from: u32,
    /// Which letter it is of those to this part, from 0.
    pub number: u64,
    /// Of which round it is.
    pub round: u64,
    /// What the items are.
    pub kind: Kind,
    /// Vertices, and what is told of them.
    pub items: Vec<(u64, u64)>,
    /// With the last letter of its kind in a round comes what the part says of itself.
    pub end: Option<Summary>,
}

impl Letter {
    /// The letter as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let of = self.lives.len() as u64;
        [VERSION, self.graph, of].into_iter().for_each(|it| put(&mut bytes, it));
        self.lives.iter().for_each(|it| put(&mut bytes, *it));
        let kind = u64::from(self.kind == Kind::Shares) << 1 | u64::from(self.end.is_some());
        [u64::from(self.from), self.number, self.round, kind, self.items.len() as u64]
            .into_iter()
            .for_each(|it| put(&mut bytes, it));
        for (vertex, told) in &self.items {
            put(&mut bytes, *vertex);
            put(&mut bytes, *told);
        }
        if let Some(end) = &self.end {
            end.encode(&mut bytes);
        }
        bytes
    }

    /// Reads a letter to this part. Fails if the bytes are none, or of another version.
    pub fn decode(part: Part, bytes: &[u8]) -> Read<Letter> {
        let mut reader = Reader(bytes);
        if reader.number()? != VERSION {
            return Err(Damaged("the letter is of another version"));
        }
        let graph = reader.number()?;
        if reader.number()? != u64::from(part.of) {
            return Err(Damaged("the graph has another number of parts"));
        }
        let lives = (0..part.of).map(|_| reader.number()).collect::<Read<_>>()?;
        let from = u32::try_from(reader.number()?).ok();
        let from = from.filter(|it| *it < part.of && *it != part.number);
        let from = from.ok_or(Damaged("the letter is of no other part"))?;
        let (number, round, kind) = (reader.number()?, reader.number()?, reader.number()?);
        let item = |reader: &mut Reader<'_>| Ok((reader.number()?, reader.number()?));
        let items = (0..reader.count()?).map(|_| item(&mut reader)).collect::<Read<_>>()?;
        let end = (kind & 1 == 1).then(|| Summary::decode(&mut reader)).transpose()?;
        let kind = if kind & 2 == 2 { Kind::Shares } else { Kind::Counts };
        Ok(Letter { graph, lives, from, number, round, kind, items, end })
    }
}

impl Summary {
    fn encode(&self, bytes: &mut Vec<u8>) {
        let Summary {
            moved, sum, rounded, events, vertices, edges, watermark, publication, ..
        } = *self;
        put(bytes, u64::from(self.has_swept) << 1 | u64::from(self.is_new));
        for long in [moved, sum] {
            put(bytes, (long >> 64) as u64);
            put(bytes, long as u64);
        }
        let numbers = [rounded, events, vertices, edges, watermark, publication];
        numbers.into_iter().for_each(|it| put(bytes, it));
    }

    fn decode(reader: &mut Reader<'_>) -> Read<Summary> {
        let flags = reader.number()?;
        let mut long = || Ok(u128::from(reader.number()?) << 64 | u128::from(reader.number()?));
        let (moved, sum) = (long()?, long()?);
        Ok(Summary {
            has_swept: flags & 2 == 2,
            is_new: flags & 1 == 1,
            moved,
            sum,
            rounded: reader.number()?,
            events: reader.number()?,
            vertices: reader.number()?,
            edges: reader.number()?,
            watermark: reader.number()?,
            publication: reader.number()?,
        })
    }
}
