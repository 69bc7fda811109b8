//! What a disk has where a dataset store is expected.

use nile_abi::NodeId;
use nile_store::checksum::portable;
use nile_store::label::LABEL_BYTES;
use nile_store::{Action, Extent, Label, MountError, Recovery, Step, Store, UNIT};

use crate::input::Input;

const DISK: u64 = 64 * UNIT;
const MOST_PIECES: usize = 32;

/// The identity of the extent whose records are written with it.
const IDENTITY: u64 = 0x1234;

/// Pieces of a disk: the unit, and what is to be made right of it, then its length and its bytes.
/// Made right are a label's checksum, or a record's with its magic, identity and predecessor.
/// Accepted: a label holds, its extent's store is mounted, and it has a dataset.
pub fn store(bytes: &[u8]) -> bool {
    let mut disk = vec![0; DISK as usize];
    let mut input = Input::new(bytes);
    let mut previous = 0;
    for _ in 0..MOST_PIECES {
        let Some([unit, right, low, high]) = input.take() else { break };
        let piece = input.most(usize::from(u16::from_le_bytes([low, high])));
        let at = u64::from(unit) % (DISK / UNIT) * UNIT;
        let room = &mut disk[at as usize..];
        let length = piece.len().min(room.len());
        room[..length].copy_from_slice(&piece[..length]);
        match right % 4 {
            1 => {
                let sum = portable(0, &room[12..UNIT as usize]);
                room[..8].copy_from_slice(b"NILEDISK");
                room[8..12].copy_from_slice(&sum.to_le_bytes());
            }
            2 if length >= 48 => {
                room[..4].copy_from_slice(b"NSR1");
                room[8..16].copy_from_slice(&IDENTITY.to_le_bytes());
                room[32..36].copy_from_slice(&u32::to_le_bytes(previous));
                room[36..40].copy_from_slice(&(length as u32).to_le_bytes());
                previous = portable(0, &room[8..length]);
                room[4..8].copy_from_slice(&previous.to_le_bytes());
            }
            // The next record is the first of another log.
            3 => previous = 0,
            _ => {}
        }
    }
    let Ok(label) = Label::read(&disk[..LABEL_BYTES as usize], DISK, portable) else {
        return false;
    };
    let mut has_dataset = false;
    for (_, extent) in label.extents() {
        if let Ok(mut store) = mount(&disk, extent) {
            has_dataset |= store.datasets().next().is_some();
            settle(&mut store, &mut disk);
            match mount(&disk, extent) {
                Ok(again) => {
                    let is_same = again.datasets().eq(store.datasets());
                    let is_same = is_same && again.notes().eq(store.notes());
                    assert!(is_same, "a mount changes something");
                }
                // The one that it has written was the last.
                Err(error) => assert_eq!(error, MountError::UsedUp, "it has written this itself"),
            }
        }
    }
    has_dataset
}

fn mount(disk: &[u8], extent: &Extent) -> Result<Store, MountError> {
    let mut recovery = Recovery::new(NodeId(1), *extent, portable);
    while let Some(range) = recovery.next() {
        recovery.take(&disk[range.at as usize..(range.at + range.bytes) as usize]);
    }
    recovery.finish()
}

/// Does all that the store wants.
fn settle(store: &mut Store, disk: &mut [u8]) {
    let space = store.space();
    assert!(space.free <= space.total && space.longest <= space.free);
    for steps in 0.. {
        assert!(steps < 1000, "it does not come to an end");
        match store.poll() {
            Some(Action::Disk(Step::Write { at, bytes })) => {
                let log = store.extent().start..store.extent().start + 2 * store.extent().log_bytes;
                assert!(log.contains(&at) && at + bytes.len() as u64 <= log.end);
                disk[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
                store.completed(Ok(()));
            }
            Some(Action::Disk(Step::Flush | Step::Discard(_))) => store.completed(Ok(())),
            Some(Action::Done(..)) => {}
            None => break,
        }
    }
}
