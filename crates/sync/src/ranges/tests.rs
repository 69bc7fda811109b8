//! Ranges beside bytes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use proptest::prelude::*;

use super::*;
use crate::words::Draws;

const SEATS: u16 = 5;

/// What one has or waits for, in the order of asking: its seat, the bytes, and how.
type Wanted = Vec<(u16, Range<u64>, Sharing)>;

/// Whether the `place`th has it: no byte of it is somebody's who came before, byte by byte.
fn has(wanted: &Wanted, place: usize) -> bool {
    let (_, range, sharing) = &wanted[place];
    let shares = |other: &Sharing| *sharing == Sharing::Shared && *other == Sharing::Shared;
    range.clone().all(|byte| {
        wanted[..place].iter().all(|(_, other, how)| !other.contains(&byte) || shares(how))
    })
}

proptest! {
    /// Those of one core and those of several, beside bytes.
    #[test]
    fn ranges_are_had_in_the_order_of_asking(seed: u64) {
        let mut draws = Draws(seed);
        let seats = Seats::attach(Region::owned(Seats::region_len(usize::from(SEATS))));
        let mut members: Vec<Seat> = (0..SEATS).map(|it| seats.enter(it).unwrap()).collect();
        let region = Region::owned(SharedRanges::region_len(usize::from(SEATS)));
        let shared = SharedRanges::attach(region, seats.clone()).unwrap();
        let mut local = Ranges::default();
        let (mut wanted, mut asks) = (Wanted::new(), BTreeMap::new());
        for _ in 0..60 {
            let number = draws.below(SEATS.into()) as u16;
            let member = &mut members[usize::from(number)];
            if let Some(place) = wanted.iter().position(|(it, ..)| *it == number) {
                wanted.remove(place);
                local.end(asks.remove(&number).unwrap());
                if draws.below(4) == 0 {
                    // It dies with what it has.
                    seats.clear(*member);
                    *member = seats.enter(number).unwrap();
                } else {
                    shared.end(*member);
                }
            } else {
                let start = draws.below(20);
                let range = start..start + 1 + draws.below(8);
                let how = [Sharing::Shared, Sharing::Exclusive][draws.below(2) as usize];
                shared.ask(*member, range.clone(), how);
                asks.insert(number, local.ask(range.clone(), how));
                wanted.push((number, range, how));
            }
            for (place, (number, ..)) in wanted.iter().enumerate() {
                let expected = has(&wanted, place);
                prop_assert_eq!(local.has(asks[number]), expected);
                prop_assert_eq!(shared.has(members[usize::from(*number)]), expected);
            }
        }
    }
}
