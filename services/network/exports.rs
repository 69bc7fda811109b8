//! The numbers by which other nodes call the instances of this one. A number is never used again
//! within the node's incarnation, which is that of the core that keeps this table (DESIGN §8).

use nile_order::SortedMap;
use nile_stl::{Place, ServiceNumber};

/// What this node exports.
#[derive(Default)]
pub struct Exports {
    by_number: SortedMap<u16, Place>,
    by_place: SortedMap<Place, u16>,
    last: u16,
}

impl Exports {
    /// The number of an instance, a new one if it has none. `None` when all are used up.
    pub fn add(&mut self, place: Place) -> Option<u16> {
        if let Some(number) = self.by_place.get(&place) {
            return Some(*number);
        }
        self.last = self.last.checked_add(1)?;
        self.by_number.insert(self.last, place);
        self.by_place.insert(place, self.last);
        Some(self.last)
    }

    /// Ends an export: calls to the number find nothing from now on.
    pub fn remove(&mut self, number: u16) {
        if let Some(place) = self.by_number.remove(&number) {
            self.by_place.remove(&place);
        }
    }

    /// The instance of a number.
    pub fn find(&self, number: ServiceNumber) -> Option<Place> {
        self.by_number.get(&number.0).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_abi::{CoreId, Generation};

    fn place(core: u16, number: u16) -> Place {
        let (node, generation) = (Place::HERE, Generation::FIRST);
        Place { node, core: CoreId(core), generation, number: ServiceNumber(number) }
    }

    #[test]
    fn a_number_means_one_instance_for_ever() {
        let mut exports = Exports::default();
        let first = exports.add(place(1, 1)).unwrap();
        assert_eq!(exports.add(place(1, 1)), Some(first), "it is asked for twice");
        let second = exports.add(place(1, 2)).unwrap();
        assert_ne!(first, second);
        assert_eq!(exports.find(ServiceNumber(second)), Some(place(1, 2)));
        exports.remove(first);
        assert_eq!(exports.find(ServiceNumber(first)), None);
        let third = exports.add(place(1, 1)).unwrap();
        assert!(third != first && third != second);
    }

    #[test]
    fn numbers_run_out_and_are_not_used_again() {
        let mut exports = Exports { last: u16::MAX - 1, ..Exports::default() };
        assert_eq!(exports.add(place(0, 1)), Some(u16::MAX));
        exports.remove(u16::MAX);
        assert_eq!(exports.add(place(0, 2)), None);
    }
}
