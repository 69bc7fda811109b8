//! Words of records.

use super::*;
use nile_ring::Region;

use crate::Board;

#[test]
fn policies_are_named_once_and_for_good() {
    let board = Board::in_memory(2, Region::owned(4096));
    let record = board.record(CoreId(1));
    assert_eq!(record.policy_name(record.policy()), None);
    assert_eq!(["fair", "fifo", "fair"].map(|name| record.name_policy(name)), [1, 2, 1]);
    record.set_policy(2);
    assert_eq!(record.policy_name(record.policy()).as_deref(), Some("fifo"));
    let long = "a name that is longer than what a row has room for";
    let number = record.name_policy(long);
    assert_eq!(record.name_policy(long), number);
    assert_eq!(record.policy_name(number).as_deref(), Some(&long[..NAME_BYTES]));
    // When all rows are taken, nothing is said.
    let names = (0..MOST_POLICIES).map(|number| alloc::format!("policy{number}"));
    let last = names.fold(1, |_, name| record.name_policy(&name));
    assert_eq!(last, 0);
    assert_eq!((record.policy_name(0), record.policy_name(u64::MAX)), (None, None));
}

#[test]
fn any_of_all_cores_may_be_away() {
    let board = Board::in_memory(2, Region::owned(4096));
    let manager = board.record(CoreId::BOOT);
    for core in [0, 1, 63, 64, 255].map(CoreId) {
        manager.set_away(core, true);
        assert!(manager.is_away(core) && !manager.is_away(CoreId(core.0 ^ 2)));
        manager.set_away(core, false);
        assert!(!manager.is_away(core));
    }
}

#[test]
fn lines_are_those_of_whoever_drives_the_device() {
    let board = Board::in_memory(2, Region::owned(4096));
    let record = board.record(CoreId(1));
    for (line, number) in Line::all().zip(0..) {
        assert_eq!(record.line(line), None);
        let gate = [Gate::Open, Gate::Masked, Gate::Storm][number as usize % 3];
        let state = LineState { core: CoreId(number * 4096), gate, storms: u32::MAX >> 1 };
        record.set_line(line, state);
        (0..number).for_each(|_| record.count_line(line));
        assert_eq!(record.line(line), Some(state));
        assert_eq!(record.line_interrupts(line), u64::from(number));
    }
    assert_eq!(record.policy(), 0);
}

#[test]
fn one_incarnation_is_to_end() {
    let board = Board::in_memory(2, Region::owned(4096));
    let manager = board.record(CoreId::BOOT);
    let one = |core, generation| manager.is_endless(CoreId(core), Generation(generation));
    assert!(!one(1, 1) && !one(0, 1));
    manager.set_endless(CoreId(1), Generation(4));
    assert!(one(1, 4) && !one(1, 5) && !one(0, 4));
}

#[test]
fn each_of_the_last_ends_is_known_for_itself() {
    let region = Region::owned(RECORD_BYTES);
    let record = Record::new(region.words());
    let crash = Fault { kind: Fault::KILLED, code: 0, at: 0, address: 0 };
    let is_planned = |it: u32| it.is_multiple_of(3);
    for number in 1..200 {
        record.set_generation(Generation(number));
        record.set_phase(CorePhase::Running);
        assert!(!record.has_left(Generation(number)), "{number} still runs");
        for earlier in number.saturating_sub(63).max(1)..number {
            assert_eq!(record.has_left(Generation(earlier)), is_planned(earlier), "{earlier}");
        }
        record.set_fault(if is_planned(number) { Fault::LEFT } else { crash });
        record.set_phase(CorePhase::Away);
        assert_eq!(record.has_left(Generation(number)), is_planned(number), "{number} is away");
    }
    assert!(!record.has_left(Generation(3)), "nobody knows of that any more");
    // It has left, and the next one has its number already.
    record.set_fault(Fault::LEFT);
    record.set_generation(Generation(200));
    assert!(record.has_left(Generation(199)) && record.has_left(Generation(200)));
    record.set_phase(CorePhase::Running);
    assert!(!record.has_left(Generation(200)));
}
