//! The tables after the manager stopped at every write.

use super::super::*;
use super::model::Model;
use super::{CORES, HIGH, LARGE, LOW, Node, frames, mapping, page};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use nile_abi::{PageSize, PhysAddr, VirtAddr};

/// Memory that notes every write, so that a test can stop a manager between any two.
struct Journal {
    memory: EmulatedMemory,
    writes: Vec<(PhysAddr, TableIndex, Entry)>,
}

impl TableMemory for Journal {
    fn read(&self, table: PhysAddr, index: TableIndex) -> Entry {
        self.memory.read(table, index)
    }

    fn write(&mut self, table: PhysAddr, index: TableIndex, entry: Entry) {
        self.memory.write(table, index, entry);
        self.writes.push((table, index, entry));
    }
}

#[test]
fn a_manager_stopped_at_any_write_loses_no_table_and_shares_none() {
    let (memory, frames, extents) = frames(4);
    let mut node = Node::new(Journal { memory, writes: Vec::new() }, &frames, &extents);
    let initial = node.memory.memory.clone();
    node.memory.writes.clear();

    // Tables are linked, shared by pages, emptied, and go from core to core.
    let mut expected: [BTreeMap<u64, Mapping>; CORES] = Default::default();
    let mut steps = Vec::from([(0, expected.clone())]);
    for round in 0..6 {
        let core = round % CORES;
        for (number, small) in [0, 1, 512, 0].into_iter().enumerate() {
            let virt = LOW.0 + (round as u64 % 2) * LARGE + small * 4096;
            if number < 3 {
                let mapping = mapping(virt, (round as u64 * 1024 + small) << 12, PageSize::Small);
                node.map(core, mapping).expect("a free table");
                expected[core].insert(virt, mapping);
                steps.push((node.memory.writes.len(), expected.clone()));
            }
            if number != 0 {
                let unmapped = node.unmap(core, page(virt, PageSize::Small)).expect("a page");
                expected[core].remove(&virt);
                steps.push((node.memory.writes.len(), expected.clone()));
                if let Some(retired) = unmapped.retired {
                    node.acknowledge(core, retired).expect("its own table");
                    steps.push((node.memory.writes.len(), expected.clone()));
                }
            }
        }
    }
    assert!(node.memory.writes.len() > 512 * 6);

    let mut steps = steps.windows(2).peekable();
    let mut stopped = initial.clone();
    for stop in 0..=node.memory.writes.len() {
        if let Some((table, index, entry)) =
            stop.checked_sub(1).map(|last| node.memory.writes[last])
        {
            stopped.write(table, index, entry);
        }
        while steps.peek().is_some_and(|step| stop > step[1].0) {
            steps.next();
        }
        let step = steps.peek().expect("a request");
        // Between two entries of a table being emptied nothing else changes: look at one in 16.
        let clearing = stop > step[0].0 + 1 && stop + 4 < step[1].0;
        if clearing && !stop.is_multiple_of(16) {
            continue;
        }

        let mut memory = stopped.clone();
        let spaces: Vec<AddressSpace> = node
            .spaces
            .iter()
            .map(|space| AddressSpace::recover(space.core(), space.root()))
            .collect();
        let (mut pool, retired) =
            TablePool::recover(&mut memory, &extents, &spaces).expect("tables as they were built");
        let mut node = Node { memory, pool: TablePool::new(), spaces };
        core::mem::swap(&mut node.pool, &mut pool);
        let sees = |node: &Node<EmulatedMemory>, wanted: &[BTreeMap<u64, Mapping>; CORES]| {
            (0..CORES).all(|core| {
                (0..4 * 512).all(|small| {
                    let virt = LOW.0 + small * 4096;
                    let found = node.spaces[core].find(&node.memory, VirtAddr(virt));
                    found == wanted[core].get(&virt).copied()
                })
            })
        };
        assert!(sees(&node, &step[0].1) || sees(&node, &step[1].1), "after write {stop}");

        let pages = |step: &[BTreeMap<u64, Mapping>; CORES]| -> usize {
            step.iter().map(BTreeMap::len).sum()
        };
        if pages(&step[0].1) < pages(&step[1].1) {
            assert!(retired.is_empty(), "a page that is being mapped takes no table away");
        }

        for retired in retired {
            node.acknowledge(retired.core().index(), retired).expect("its own table");
        }
        assert_eq!(node.pool.retired(), 0);
        // Every table that no page needs can be linked, and none that one does.
        let before = if sees(&node, &step[0].1) { &step[0].1 } else { &step[1].1 };
        let mut number = 0;
        let linked = loop {
            let mapping = mapping(HIGH.0 + number * LARGE, number << 12, PageSize::Small);
            match node.map(0, mapping) {
                Ok(()) => number += 1,
                Err(error) => break (error, number as usize),
            }
        };
        let used: usize = before
            .iter()
            .map(|pages| Model { pages: pages.clone(), pending: Vec::new() }.tables())
            .sum();
        assert_eq!(linked, (MapError::NoTables, 4 - used));
        assert!(sees(&node, before));
    }
}
