//! Which rows of a service type have a keyword, and with which weight, kept so that the best sum
//! over several keywords is found without visiting every row that has one of them.
//!
//! Rows are grouped in *blocks* of 64. Of each block that has the keyword at all, a posting list
//! keeps a bit for each row and the greatest weight. What several lists' greatest weights add up
//! to bounds what a row of the block can score; a block whose bound does not beat the best row so
//! far costs a few instructions, and in the others only those rows are looked at that can beat it:
//! as soon as no single weight can, those with two of the keywords. Once the longest list alone
//! cannot beat the best row either, only the blocks of the others are visited; and once nothing
//! can, the search ends. The cost is at most that of a scan over one block per 64 rows and list,
//! and weights that are all alike make it cheaper, not dearer.

use alloc::vec::Vec;

use crate::limits::MAX_QUERY_KEYWORDS;

/// Rows of one block: the bits of a mask.
const ROWS: u32 = u64::BITS;

/// The rows of 64 that have the keyword.
struct Block {
    /// Which 64 rows.
    number: u32,
    /// Where the weights of its rows begin.
    start: u32,
    /// Who of them has the keyword.
    mask: u64,
    /// The greatest weight among them.
    most: u16,
}

/// One keyword's rows.
#[derive(Default)]
pub(crate) struct Postings {
    /// Those that have a row at all, in ascending order.
    blocks: Vec<Block>,
    /// One weight for each row that has the keyword, in the order of rows.
    weights: Vec<u16>,
    /// The greatest of them.
    most: u16,
}

impl Postings {
    /// Adds a row, which comes after all that are there.
    pub(crate) fn push(&mut self, row: u32, weight: u16) {
        let (number, bit) = (row / ROWS, 1 << (row % ROWS));
        self.most = self.most.max(weight);
        match self.blocks.last_mut() {
            Some(last) if last.number == number => {
                last.mask |= bit;
                last.most = last.most.max(weight);
            }
            _ => {
                let start = self.weights.len() as u32;
                self.blocks.push(Block { number, start, mask: bit, most: weight });
            }
        }
        self.weights.push(weight);
    }

    /// Takes a row out. One that is not there stays out.
    pub(crate) fn remove(&mut self, row: u32) {
        let (number, bit) = (row / ROWS, 1 << (row % ROWS));
        let Ok(at) = self.blocks.binary_search_by_key(&number, |block| block.number) else {
            return;
        };
        let block = &mut self.blocks[at];
        if block.mask & bit == 0 {
            return;
        }
        self.weights.remove(block.place(bit));
        block.mask &= !bit;
        let range = block.start as usize..(block.start + block.mask.count_ones()) as usize;
        block.most = self.weights[range].iter().copied().max().unwrap_or(0);
        self.blocks[at + 1..].iter_mut().for_each(|later| later.start -= 1);
        if self.blocks[at].mask == 0 {
            self.blocks.remove(at);
        }
        self.most = self.blocks.iter().map(|block| block.most).max().unwrap_or(0);
    }

    /// Whether no row has the keyword.
    pub(crate) fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.weights.clear();
        self.most = 0;
    }
}

impl Block {
    /// Where the weight of the row with this bit stands.
    fn place(&self, bit: u64) -> usize {
        self.start as usize + (self.mask & (bit - 1)).count_ones() as usize
    }
}

/// The row with the greatest sum of weights over `lists` that `accept` takes, and the sum; of
/// several the first. `accept` is asked only about rows that would be the best so far.
///
/// Lists beyond the first [`MAX_QUERY_KEYWORDS`] are not looked at.
pub(crate) fn best(lists: &[&Postings], accept: impl FnMut(u32) -> bool) -> Option<(u32, u32)> {
    // The usual numbers of keywords have code of their own.
    match lists {
        [] => None,
        [one] => search([one], accept),
        [one, two] => search([one, two], accept),
        many => {
            let none = Postings::default();
            let mut lists = [&none; MAX_QUERY_KEYWORDS];
            lists.iter_mut().zip(many).for_each(|(list, it)| *list = it);
            search(lists, accept)
        }
    }
}

fn search<const LISTS: usize>(
    mut lists: [&Postings; LISTS],
    mut accept: impl FnMut(u32) -> bool,
) -> Option<(u32, u32)> {
    lists.sort_unstable_by_key(|list| list.blocks.len());
    let (longest, others) = lists.split_last()?;
    let most = lists.iter().map(|list| u32::from(list.most)).sum();
    let mut rest = lists.map(|list| list.blocks.as_slice());
    let (mut found, mut score) = (None, 0);
    while score < most {
        // Rows that only the longest list has are of interest as long as they can win.
        let decisive = others.len() + usize::from(u32::from(longest.most) > score);
        let heads = rest[..decisive].iter().filter_map(|blocks| blocks.first());
        let Some(number) = heads.map(|block| block.number).min() else { break };
        rest[others.len()] = from(rest[others.len()], number);
        let here = rest.map(|blocks| blocks.first().filter(|block| block.number == number));
        let (mut bound, mut single, mut once, mut twice) = (0, 0, 0, 0);
        for (blocks, block) in rest.iter_mut().zip(here) {
            let Some(block) = block else { continue };
            *blocks = &blocks[1..];
            bound += u32::from(block.most);
            single = single.max(u32::from(block.most));
            twice |= once & block.mask;
            once |= block.mask;
        }
        // Without branches: which of the two it is cannot be predicted, that it is none mostly can.
        let mut candidates = (twice | once & all_if(single > score)) & all_if(bound > score);
        while candidates != 0 {
            let bit = candidates & candidates.wrapping_neg();
            candidates ^= bit;
            let mut sum = 0;
            for (list, block) in lists.iter().zip(here) {
                if let Some(block) = block.filter(|block| block.mask & bit != 0) {
                    sum += u32::from(list.weights[block.place(bit)]);
                }
            }
            let row = number * ROWS + bit.trailing_zeros();
            if sum > score && accept(row) {
                (found, score) = (Some((row, sum)), sum);
            }
        }
    }
    found
}

/// All bits, or none.
fn all_if(condition: bool) -> u64 {
    u64::from(condition).wrapping_neg()
}

/// The blocks from this number on.
fn from(blocks: &[Block], number: u32) -> &[Block] {
    let Some(first) = blocks.first().filter(|first| first.number < number) else { return blocks };
    // It stands so far ahead if no number is missing between, and cannot stand further.
    let ahead = (number - first.number) as usize;
    match blocks.get(ahead) {
        Some(block) if block.number == number => &blocks[ahead..],
        _ => {
            let within = &blocks[..blocks.len().min(ahead)];
            &blocks[within.partition_point(|block| block.number < number)..]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    fn list(rows: &BTreeMap<u32, u16>) -> Postings {
        let mut list = Postings::default();
        rows.iter().for_each(|(row, weight)| list.push(*row, *weight));
        list
    }

    fn naive(lists: &[BTreeMap<u32, u16>], accept: impl Fn(u32) -> bool) -> Option<(u32, u32)> {
        let mut sums = BTreeMap::new();
        for (row, weight) in lists.iter().flatten() {
            *sums.entry(*row).or_insert(0) += u32::from(*weight);
        }
        let best = sums.into_iter().filter(|(row, _)| accept(*row));
        best.min_by_key(|(row, sum)| (u32::MAX - sum, *row))
    }

    fn any_list() -> impl Strategy<Value = BTreeMap<u32, u16>> {
        // Few weights make ties, many make none; short lists are sparse and long ones dense.
        prop_oneof![
            proptest::collection::btree_map(0u32..400, 1u16..5, 0..300),
            proptest::collection::btree_map(0u32..400, 1u16.., 0..40),
        ]
    }

    proptest! {
        #[test]
        fn the_best_row_is_that_of_a_search_of_all(
            lists in proptest::collection::vec(any_list(), 0..5),
            odd in any::<bool>(),
        ) {
            let built: Vec<_> = lists.iter().map(list).collect();
            let accept = |row: u32| !odd || row % 2 == 1;
            let found = best(&built.iter().collect::<Vec<_>>(), accept);
            prop_assert_eq!(found, naive(&lists, accept));
        }

        #[test]
        fn a_list_without_rows_is_the_list_that_never_had_them(
            rows in any_list(),
            gone in proptest::collection::vec(0u32..400, 0..200),
        ) {
            let (mut rest, mut built) = (rows.clone(), list(&rows));
            for row in gone {
                rest.remove(&row);
                built.remove(row);
            }
            prop_assert_eq!(built.is_empty(), rest.is_empty());
            let fresh = list(&rest);
            prop_assert_eq!((&built.weights, built.most), (&fresh.weights, fresh.most));
            let blocks = |list: &Postings| -> Vec<_> {
                list.blocks.iter().map(|it| (it.number, it.start, it.mask, it.most)).collect()
            };
            prop_assert_eq!(blocks(&built), blocks(&fresh));
        }
    }
}
