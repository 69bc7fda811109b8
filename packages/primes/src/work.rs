//! Pieces, one after the other, for as long as there are any.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

use nile_abi::CoreId;
use nile_abi::call::UserSlot;
use nile_interfaces::core_manager::CoreManagerClient;
use nile_stl::CallResult;
use nile_sync::Seat;
use nile_user::{SEATS_OF_DOMAIN, Services, seat_of};

use crate::count::primes;
use crate::{PIECES, Shared};

/// How long it waits for others, who have the last pieces, before it looks who is there.
const LOOK: Duration = Duration::from_millis(2);

/// Does pieces until all are done; how many it did. While nobody can say who is gone, it waits.
pub(crate) fn work(services: &Services, all: &Shared, seat: Seat) -> u32 {
    let mut done = 0;
    loop {
        while let Some(piece) = all.spread.take(seat) {
            let limit = all.limit().load(Relaxed);
            let bound = |number: u32| limit * u64::from(number) / u64::from(PIECES);
            let count = primes(bound(piece.number), bound(piece.number + 1));
            all.counts.words()[piece.number as usize].store(count, Relaxed);
            all.spread.finish(piece);
            done += 1;
        }
        if all.spread.is_done() {
            return done;
        }
        services.block_on(async {
            services.stl().host().pause(LOOK).await;
            let _ = clear_gone(services, all).await;
        });
    }
}

/// How many primes all have found.
pub(crate) fn sum(all: &Shared) -> u64 {
    let counts = all.counts.words()[..PIECES as usize].iter();
    counts.map(|count| count.load(Relaxed)).sum()
}

/// Ends the lives of the node's seats whose packages have ended.
async fn clear_gone(services: &Services, all: &Shared) -> CallResult<()> {
    // Who sits down after this is not meant.
    let sitting: Vec<Seat> = all.seats.sitting().collect();
    let manager = CoreManagerClient::find(services.stl()).await?;
    let regions = manager.regions().await?;
    let Some(region) = regions.into_iter().find(|it| it.name == "primes") else { return Ok(()) };
    let has = |seat: &Seat| {
        region.packages.iter().any(|it| {
            let slot = UserSlot::from_index(it.slot.into());
            slot.is_some_and(|slot| all.first + seat_of(CoreId(it.core), slot) == seat.number)
        })
    };
    // Those of other domains nobody can be asked about.
    let own = |seat: &Seat| (all.first..all.first + SEATS_OF_DOMAIN).contains(&seat.number);
    let gone = sitting.into_iter().filter(|seat| own(seat) && !has(seat));
    gone.for_each(|seat| all.seats.clear(seat));
    Ok(())
}
