//! Memory that domains share.

use alloc::string::ToString;

use super::*;

fn running(names: &[&str]) -> Machine {
    let mut machine = Machine::new();
    for text in names {
        machine.it.command(at(0), &Command::Create(create(text, 1, 2))).unwrap();
        machine.run(&[]);
    }
    machine
}

fn destroy(machine: &mut Machine, text: &str) {
    machine.it.command(at(1), &Command::Destroy { name: name(text), force: true }).unwrap();
    machine.run(&[]);
}

#[test]
fn what_is_shared_is_had_by_those_alone_that_share_it() {
    let mut machine = running(&["web", "batch", "log"]);
    let free = |machine: &Machine| machine.it.ledger().units_with(|it| it.phase == Phase::Free);
    let before = free(&machine);
    let share = machine.it.share(name("ranks"), 3, &[name("web"), name("batch")]).unwrap();
    assert_eq!((share.extent.count, free(&machine)), (3, before - 3));
    assert_eq!(share.users().collect::<Vec<_>>(), [1, 2]);
    let shows = |machine: &Machine, text: &str| {
        let id = machine.it.ledger().named(name(text)).unwrap().id;
        share
            .extent
            .units()
            .map(|unit| has(machine.it.ledger().words(), id, Thing::Unit(unit)))
            .collect::<Vec<_>>()
    };
    assert_eq!(shows(&machine, "web"), [true; 3]);
    assert_eq!(shows(&machine, "log"), [false; 3]);
    // Somebody more has it, and it is the same.
    let more = machine.it.share(name("ranks"), 3, &[name("log")]).unwrap();
    assert_eq!((more.extent, more.users().count()), (share.extent, 3));
    machine.it.unshare(name("ranks"), &[name("batch")]).unwrap();
    assert_eq!(shows(&machine, "batch"), [false; 3]);
    assert_eq!(shows(&machine, "log"), [true; 3]);
    // A ledger that is opened anew says the same.
    let words = machine.it.ledger().words().clone();
    let opened = Ledger::open(words).unwrap();
    assert_eq!(
        opened.shares().collect::<Vec<_>>(),
        machine.it.ledger().shares().collect::<Vec<_>>()
    );
    destroy(&mut machine, "web");
    assert_eq!(free(&machine), before - 3 + 2, "log has it still");
    destroy(&mut machine, "log");
    assert_eq!(free(&machine), before + 4);
    assert_eq!(machine.it.ledger().share_named(name("ranks")), None);
}

#[test]
fn what_cannot_be_shared_is_refused_with_its_numbers() {
    let mut machine = running(&["web"]);
    let web = [name("web")];
    let mut said = |text: &str, units, with: &[Name]| {
        machine.it.share(name(text), units, with).unwrap_err().to_string()
    };
    assert_eq!(said("a", 1, &[name("none")]), "no domain none; there is web");
    assert_eq!(said("a", 0, &web), "0 MiB are no size of shared memory: it has 2 to 256 MiB");
    assert_eq!(said("a", 1, &[]), "say which domains are to share it");
    let row = "64 MiB in a row are wanted, and 56 MiB are free so; ask for less";
    assert_eq!(said("a", 32, &web), row);
    machine.it.share(name("a"), 1, &web).unwrap();
    let mut said = |text: &str, units| {
        machine.it.share(name(text), units, &web).map(|_| ()).map_err(|it| it.to_string())
    };
    let there = "a is there already and has 2 MiB; say that, or take another name";
    assert_eq!(said("a", 2), Err(there.into()));
    for number in 1..SHARES {
        assert_eq!(said(&alloc::format!("x{number}"), 1), Ok(()));
    }
    let full = "there are 16 pieces of shared memory, and no more can be; drop one";
    assert_eq!(said("b", 1), Err(full.into()));
    let none = machine.it.unshare(name("b"), &[]).unwrap_err();
    assert_eq!(none.to_string(), "nothing is shared as b");
}

#[test]
fn a_ledger_whose_shares_are_none_is_damaged() {
    let mut machine = running(&["web"]);
    machine.it.share(name("a"), 1, &[name("web")]).unwrap();
    let words = machine.it.into_ledger().into_words();
    let at = words.iter().rposition(|word| *word == u64::from(b'a')).unwrap() - 2;
    for (place, word) in [(1, 1 << 32 | 32), (1, 0), (2, u64::from(b'!'))] {
        let mut words = words.clone();
        words[at + place] = word;
        assert_eq!(Ledger::open(words).err(), Some(Damaged { at }), "{place} {word:x}");
    }
}
