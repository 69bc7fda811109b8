//! The job of the simulation: it sorts records of eight bytes. Everything of it is drawn from the
//! seed: how many records, how they are spread, how many partitions.

use nile_abi::NodeId;
use nile_bosml::Blob;
use nile_job::{Bounds, Epoch, Job, JobId, Split};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use crate::draw::below;

/// A record: its key, and what tells it from others of the key.
pub type Record = (u32, u32);

/// A job and its input.
pub struct Work {
    pub job: Job,
    pub splits: Vec<Split>,
    pub records: Vec<Vec<Record>>,
}

impl Work {
    /// Draws a job for `nodes` nodes with `workers` worker cores in all.
    pub fn draw(random: &mut ChaCha8Rng, nodes: u32, workers: u32) -> Work {
        let blocks = match below(random, 20) {
            0 => 0,
            1 => 40 + below(random, 40),
            _ => 1 + below(random, 12),
        };
        let copies = 1 + below(random, 2);
        let is_skewed = below(random, 5) == 0;
        let is_sampled = below(random, 4) != 0;
        let most = u64::from(workers.clamp(1, 8));
        let reducers = 1 + below(random, most) as u32;
        let key = |random: &mut ChaCha8Rng| match is_skewed {
            true => below(random, 4) as u32,
            false => random.next_u64() as u32,
        };
        let (mut splits, mut records) = (Vec::new(), Vec::new());
        for block in 0..blocks as u32 {
            let count = below(random, 40);
            let rows: Vec<Record> =
                (0..count).map(|_| (key(random), random.next_u64() as u32)).collect();
            let first = below(random, u64::from(nodes));
            let holders = (0..copies).map(|copy| (first + copy) % u64::from(nodes));
            let mut holders: Vec<NodeId> = holders.map(|node| NodeId(node as u32 + 1)).collect();
            holders.dedup();
            splits.push(Split { dataset: 0, block, blocks: 1, bytes: 8 * count, nodes: holders });
            records.push(rows);
        }
        let job = Job {
            id: JobId(random.next_u64()),
            name: "sort".into(),
            package: "sort".into(),
            arguments: Vec::new(),
            input: vec!["input".into()],
            output: "output".into(),
            reducers,
            copies: 1,
            // A majority of two would be both.
            keepers: (1..=if nodes < 3 { 1 } else { 3 }).map(NodeId).collect(),
            samples: if is_sampled { 1 + below(random, 3) as u32 } else { 0 },
            memory: Some(1 << 20),
            bytes: 0,
            blocks: 0,
            conserves: true,
            task_timeout: None,
            share: nile_job::Share::default(),
            on: Vec::new(),
        };
        Work { job, splits, records }
    }

    /// All records, in the order of the output.
    pub fn sorted(&self) -> Vec<Record> {
        let mut all: Vec<Record> = self.records.iter().flatten().copied().collect();
        all.sort_unstable();
        all
    }
}

/// What a sample task finds: some keys, and others for each master, so that plans differ.
pub fn sample(records: &[Record], epoch: Epoch) -> Vec<u8> {
    records
        .iter()
        .skip(epoch.0 as usize % 3)
        .step_by(3)
        .flat_map(|record| record.0.to_le_bytes())
        .collect()
}

/// Cuts the bounds of `reducers` partitions: the keys where all but the first begin. Of how many
/// slices they are follows from the samples, too.
pub fn cut(samples: &[Vec<u8>], reducers: u32) -> Bounds {
    let mut keys = keys(&samples.concat());
    keys.sort_unstable();
    let bound = |place: u32| {
        let at = keys.len() * place as usize / reducers as usize;
        keys.get(at).copied().unwrap_or(u32::MAX)
    };
    let bytes = (1..reducers).flat_map(|place| bound(place).to_le_bytes()).collect();
    Bounds { bytes: Blob(bytes), slices: 1 + keys.len() as u32 % 3 }
}

fn keys(bytes: &[u8]) -> Vec<u32> {
    let key = |bytes: &[u8]| bytes.iter().rev().fold(0, |key, byte| key << 8 | u32::from(*byte));
    bytes.chunks_exact(4).map(key).collect()
}

/// Divides records over the slices of partitions, by these bounds or, without any, evenly.
pub fn divide(records: &[Record], bounds: Option<&Bounds>, reducers: u32) -> Vec<Vec<Record>> {
    let slices = bounds.map_or(1, |bounds| bounds.slices);
    let bounds = bounds.map(|bounds| keys(&bounds.bytes.0));
    let mut pieces = vec![Vec::new(); (reducers * slices) as usize];
    for record in records {
        let partition = match &bounds {
            Some(bounds) => bounds.partition_point(|bound| *bound <= record.0),
            None => ((u64::from(record.0) * u64::from(reducers)) >> 32) as usize,
        };
        let slice = record.1 % slices;
        pieces[partition * slices as usize + slice as usize].push(*record);
    }
    pieces
}

/// The sum of the records' checksums.
pub fn checksum(records: &[Record]) -> u64 {
    let one = |record: &Record| {
        let mixed = (u64::from(record.0) << 32 | u64::from(record.1)).wrapping_add(0x9e37_79b9);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    records.iter().map(one).fold(0, u64::wrapping_add)
}
