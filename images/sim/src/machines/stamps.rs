//! What a domain writes into its part of the supervisor's disk, and finds there: its own stamps, or
//! zeros, whoever had the part before, and however often the supervisor dies meanwhile.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use nile_abi::PhysAddr;
use nile_device::DrivenDisk;
use nile_device::disk::Piece;
use nile_kernel::Core;
use nile_platform_sim::SimMachine;
use nile_ring::Region;

use super::user::User;

/// Bytes of a part, and of what is written at once: more than one slot of a link has.
pub const PART: u64 = 2 << 20;
const PIECE: usize = 96 << 10;
const PIECES: u64 = PART / PIECE as u64;

/// How often something is read and written.
const EACH: Duration = Duration::from_millis(25);

/// How long that may take at most: a supervisor begins anew meanwhile.
const LATE: Duration = Duration::from_secs(2);

/// Reads and writes the part that the core drives, if it drives one.
pub async fn stamp(core: &Core<SimMachine>, user: &Rc<RefCell<User>>) {
    let Some(disk) = core.disks().first().cloned() else { return };
    let Some(own_id) = core.machine().domain() else { return };
    let id = u64::from(own_id.generation.0) << 8 | u64::from(own_id.slot);
    let note = |what: String| user.borrow_mut().note(format!("RFfuse: {own_id}: {what}"));
    // What it has written since this incarnation began.
    let mut own: BTreeMap<u64, u64> = BTreeMap::new();
    let region = Region::owned(PIECE);
    loop {
        let (place, count) = {
            let mut user = user.borrow_mut();
            (user.draw(PIECES), 1 + user.draw(1 << 20))
        };
        let begun = core.now();
        match read(&disk, place, &region).await {
            Ok(stamp) => {
                // Zero, or of the domain, and what it wrote last.
                let is_own = stamp == 0 || stamp >> 32 == id;
                let is_last = own.get(&place).is_none_or(|last| *last == stamp);
                if !is_own || !is_last {
                    return note(format!(
                        "place {place} has {stamp:#x}, not {:?}",
                        own.get(&place)
                    ));
                }
            }
            Err(what) => return note(format!("place {place}: {what}")),
        }
        let stamp = id << 32 | count;
        region.words().iter().for_each(|word| word.store(stamp, Relaxed));
        // From here on the place has either, until it is known which.
        own.remove(&place);
        let (end, ()) = disk.write(at(place), vec![piece(&region)], ()).await;
        if let Err(why) = end {
            return note(format!("place {place} is not written: {why}"));
        }
        own.insert(place, stamp);
        user.borrow_mut().counts.stamped += 1;
        if core.now().since(begun) > LATE {
            return note(format!("it took from {begun} to {}", core.now()));
        }
        core.sleep(EACH).await;
    }
}

fn at(place: u64) -> u64 {
    place * PIECE as u64
}

/// The whole of a place in memory: a simulated disk is given memory as it is.
fn piece(region: &Region) -> Piece {
    Piece { at: PhysAddr(0), region: region.clone() }
}

/// The stamp that all of a place has.
async fn read(disk: &Rc<DrivenDisk>, place: u64, region: &Region) -> Result<u64, String> {
    let (end, ()) = disk.read(at(place), vec![piece(region)], ()).await;
    end.map_err(|why| why.to_string())?;
    let first = region.words()[0].load(Relaxed);
    match region.words().iter().position(|word| word.load(Relaxed) != first) {
        None => Ok(first),
        Some(word) => {
            let other = region.words()[word].load(Relaxed);
            Err(format!("it has {first:#x}, and {other:#x} from word {word} on"))
        }
    }
}
