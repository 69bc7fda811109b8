//! How a job's input is cut into splits.

use alloc::vec::Vec;

use nile_abi::NodeId;
use nile_job::Split;

use nile_interfaces::dataset::records::BlockEntry;

/// Splits of a worker: enough that a slow one holds up little, and few enough that what a slice of
/// a partition has of each fills about a buffer.
const PER_WORKER: u64 = 4;

/// The most splits of a job; those of a larger input are longer.
const MOST: u64 = 16_384;

/// About how many bytes a split has. `share` is a worker's share of its node's memory, which
/// has to hold a split's blocks, its output, and the blocks that come next; 0 for any.
pub fn target(total: u64, workers: usize, share: u64) -> u64 {
    let even = total.div_ceil(PER_WORKER * (workers as u64).max(1));
    let most = if share == 0 { u64::MAX } else { (share / 3).max(1) };
    even.min(most).max(total.div_ceil(MOST)).max(1)
}

/// Cuts datasets, given by their blocks, into splits of about as many blocks, of `target` bytes or
/// an eighth more. A split has at least a block, and only blocks that the same nodes have.
pub fn cut(datasets: &[Vec<BlockEntry>], target: u64) -> Vec<Split> {
    let mut splits: Vec<Split> = Vec::new();
    for (dataset, blocks) in datasets.iter().enumerate() {
        let mut block = 0;
        for run in blocks.chunk_by(|one, other| nodes(one) == nodes(other)) {
            let bytes = bytes(run);
            let count = (bytes - bytes.min(target) / 8).div_ceil(target.max(1));
            let count = count.clamp(1, run.len() as u64) as usize;
            for split in 0..count {
                let start = |split| split * run.len() / count;
                let blocks = &run[start(split)..start(split + 1)];
                splits.push(Split {
                    dataset: dataset as u16,
                    block,
                    blocks: blocks.len() as u32,
                    bytes: self::bytes(blocks),
                    nodes: nodes(&run[0]),
                });
                block += blocks.len() as u32;
            }
        }
    }
    splits
}

fn nodes(block: &BlockEntry) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = block.nodes.iter().map(|node| NodeId(*node)).collect();
    nile_order::sort(&mut nodes);
    nodes
}

fn bytes(blocks: &[BlockEntry]) -> u64 {
    blocks.iter().map(|block| u64::from(block.bytes)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(count: u32, bytes: u32, nodes: &[u32]) -> Vec<BlockEntry> {
        let entry = |_| BlockEntry { bytes, checksum: 0, nodes: nodes.to_vec() };
        (0..count).map(entry).collect()
    }

    #[test]
    fn a_worker_has_about_four_splits_that_fit_its_memory() {
        assert_eq!(target(800, 10, 0), 20);
        assert_eq!(target(1 << 40, 1, 3 << 20), (1 << 40) / MOST);
        assert_eq!(target(1 << 30, 1, 3 << 20), 1 << 20);
        assert_eq!((target(0, 4, 0), target(5, 0, 1)), (1, 1));
    }

    #[test]
    fn splits_are_runs_of_blocks_of_one_dataset_on_the_same_nodes() {
        let mut first = blocks(5, 100, &[2, 1]);
        first[3].nodes = Vec::from([1, 2]);
        first[4].nodes = Vec::from([3]);
        let splits = cut(&[first, blocks(2, 100, &[3])], 300);
        let runs: Vec<_> = splits.iter().map(|it| (it.dataset, it.block, it.blocks)).collect();
        assert_eq!(runs, [(0, 0, 2), (0, 2, 2), (0, 4, 1), (1, 0, 2)]);
        assert_eq!((splits[0].bytes, splits[0].nodes.len()), (200, 2));
    }

    #[test]
    fn splits_of_a_dataset_have_about_as_many_blocks() {
        let lengths = |count, target| -> Vec<u32> {
            cut(&[blocks(count, 100, &[1])], target).iter().map(|split| split.blocks).collect()
        };
        assert_eq!(lengths(41, 1000), [10, 10, 10, 11], "no short one in the end");
        assert_eq!(lengths(46, 1000), [9, 9, 9, 9, 10]);
        assert_eq!(lengths(3, 1000), [3]);
    }

    #[test]
    fn every_block_is_in_one_split_whatever_the_target_is() {
        for target in [1, 99, 100, 101, 250, 1000, u64::MAX / 2] {
            let splits = cut(&[blocks(17, 100, &[1])], target);
            let mut next = 0;
            for split in &splits {
                assert_eq!((split.block, split.bytes), (next, u64::from(split.blocks) * 100));
                next += split.blocks;
            }
            assert_eq!(next, 17, "{target}");
        }
        assert!(cut(&[Vec::new()], 10).is_empty());
    }
}
