//! What commands do, one by one; and what they say when they do not.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::{DEADLINES, Machine, at, create, name};
use crate::*;

fn made(domains: &[(&str, u16, u8)]) -> Machine {
    let mut machine = Machine::new();
    for (text, cores, priority) in domains {
        let mut it = create(text, *cores, 4);
        it.limits.priority = *priority;
        assert_eq!(machine.command(Command::Create(it), &[]), Ok(()));
    }
    machine
}

fn resize(text: &str, cores: u16, force: bool) -> Command {
    Command::Resize(Resize { name: name(text), cores: Some(cores), units: None, force })
}

fn said(outcome: Outcome) -> String {
    outcome.unwrap_err().to_string()
}

#[test]
fn a_domain_gets_what_it_was_promised_and_leaves_nothing() {
    let mut machine = made(&[("web", 3, 0)]);
    assert_eq!((machine.cores("web"), machine.units("web")), (vec![1, 2, 3], 4));
    let first = machine.it.ledger().named(name("web")).unwrap().id;
    for force in [false, true] {
        let destroy = Command::Destroy { name: name("web"), force };
        assert_eq!(machine.command(destroy, &[]), Ok(()));
        assert_eq!(machine.it.ledger().cores_with(|it| it.phase == Phase::Free).len(), 7);
        assert_eq!(machine.command(Command::Create(create("web", 3, 4)), &[]), Ok(()));
    }
    let last = machine.it.ledger().named(name("web")).unwrap().id;
    assert_eq!((last.slot, last.generation.0), (first.slot, first.generation.0 + 2));
    assert_eq!(machine.it.due(), None);
}

#[test]
fn a_refusal_says_number_and_cure() {
    let machine = made(&[("web", 5, 0)]);
    let refused = |command| said(machine.it.plan(&command).map(drop));
    for (command, text) in [
        (Command::Create(create("web", 1, 1)), "there is a domain web already"),
        (Command::Create(create("a", 3, 1)), "3 cores are wanted; free: 6, 7; web has 5; ask"),
        (Command::Create(create("a", 1, 30)), "60 MiB are wanted; free: 52 MiB; web has 8 MiB"),
        (Command::Create(create("a", 0, 1)), "it would have 0 cores, and must have 1 to 8"),
        (resize("web", 9, false), "it would have 9 cores, and must have 1 to 8"),
        (resize("batch", 1, false), "no domain batch; there is web"),
        (Command::Recall { from: name("web") }, "web has no cores from others"),
        (
            Command::Lend { from: name("web"), to: name("web"), cores: 1, millis: 1 },
            "to another one, not to itself",
        ),
        (
            Command::Create(Create { device: Some(2), ..create("a", 1, 1) }),
            "there is no device 2 that a domain can have",
        ),
    ] {
        let refusal = refused(command);
        assert!(refusal.contains(text), "{command:?}: {refusal}");
    }
}

/// The machine may say that a domain is put together after the domain has said that it runs.
#[test]
fn who_says_that_it_runs_has_been_put_together() {
    let mut it = Machine::new().it;
    let request = it.command(at(0), &Command::Create(create("web", 2, 4))).unwrap();
    let built = core::iter::from_fn(|| it.take_action()).find_map(|action| match action {
        Action::Build(id) => Some(id),
        _ => None,
    });
    let id = built.expect("it is to be put together");
    it.heard(at(1), id, Message::Hello);
    it.happened(at(2), Happened::Built(id));
    let told =
        core::iter::from_fn(|| it.take_action()).any(|it| it == Action::Tell(request, Ok(())));
    assert!(told);
    assert_eq!(it.ledger().domain(id).map(|it| it.state), Some(Lifecycle::Running));
}

#[test]
fn who_does_not_start_in_time_leaves_nothing() {
    let mut machine = Machine::new();
    let outcome = machine.command(Command::Create(create("web", 2, 4)), &["web"]);
    assert_eq!(outcome, Err(Refused::TimedOut));
    machine.run(&[]);
    assert_eq!(machine.it.ledger().domains().count(), 0);
    assert_eq!(machine.it.ledger().cores_with(|it| it.phase == Phase::Free).len(), 7);
}

#[test]
fn who_does_not_answer_keeps_its_cores_unless_it_is_forced() {
    let mut machine = made(&[("web", 4, 0)]);
    assert_eq!(machine.command(resize("web", 2, false), &["web"]), Err(Refused::TimedOut));
    assert_eq!(machine.cores("web"), [1, 2, 3, 4]);
    machine.run(&[]);
    assert_eq!(machine.command(resize("web", 2, true), &["web"]), Ok(()));
    assert_eq!(machine.cores("web"), [1, 2]);
}

#[test]
fn a_higher_priority_takes_what_lower_ones_can_spare() {
    let mut machine = made(&[("low", 3, 0), ("mid", 4, 1)]);
    let create = |cores| Create {
        limits: Limits { cores: (1, 8), units: (1, 32), priority: 2 },
        ..create("high", cores, 1)
    };
    let refusal = said(machine.command(Command::Create(create(6)), &[]));
    assert!(refusal.starts_with("6 cores are wanted, and none is free; low has 3, mid has 4"));
    // Even from one that does not answer.
    assert_eq!(machine.command(Command::Create(create(3)), &["low"]), Ok(()));
    assert_eq!(machine.cores("low"), [1]);
    assert_eq!((machine.cores("mid").len(), machine.cores("high").len()), (3, 3));
}

#[test]
fn what_is_lent_comes_back_when_it_is_due_recalled_or_the_borrower_is_dead() {
    let lend = Command::Lend { from: name("web"), to: name("batch"), cores: 2, millis: 50 };
    let count = |machine: &Machine| (machine.cores("web").len(), machine.cores("batch").len());
    for end in ["due", "recalled", "dead"] {
        let mut machine = made(&[("web", 4, 0), ("batch", 1, 0)]);
        assert_eq!(machine.command(lend, &[]), Ok(()));
        assert_eq!(count(&machine), (2, 3), "{end}");
        assert!(!machine.it.is_at_work(), "nothing goes on, though something will be due");
        let loans = machine.it.ledger().cores().filter_map(|(core, it)| Some((core, it.loan()?)));
        assert_eq!(loans.collect::<Vec<_>>(), [(3, (1, 2)), (4, (1, 2))], "{end}");
        let left = match end {
            "due" => {
                assert_eq!(machine.it.due(), Some(at(10 + 50)));
                machine.it.tick(at(60));
                1
            }
            "recalled" => {
                let recall = Command::Recall { from: name("batch") };
                assert_eq!(machine.command(recall, &["batch"]), Ok(()));
                1
            }
            _ => {
                let destroy = Command::Destroy { name: name("batch"), force: true };
                assert_eq!(machine.command(destroy, &[]), Ok(()));
                0
            }
        };
        machine.run(&[]);
        assert_eq!(count(&machine), (4, left), "{end}");
    }
}

#[test]
fn a_core_that_was_taken_before_it_began_is_not_begun() {
    let mut domain = Managing::new([1]);
    domain.heard(Message::OfferCore(3));
    assert_eq!((domain.take_act(), domain.has(3)), (Some(Act::Start(3)), true));
    domain.heard(Message::CoreParked(3));
    assert_eq!((domain.has(3), domain.has(1)), (false, true));
    assert_eq!(domain.take_act(), Some(Act::Lost(3)));
    domain.not_started(3);
    assert_eq!(domain.take_act(), None, "nobody asks for it any more");
}

#[test]
fn a_supervisor_that_begins_anew_goes_on() {
    let mut machine = made(&[("web", 4, 0)]);
    machine.it.command(at(0), &resize("web", 2, true)).unwrap();
    machine.it.command(at(0), &Command::Create(create("half", 1, 1))).unwrap();
    let words = machine.it.into_ledger().into_words();
    let ledger = Ledger::open(words.clone()).unwrap();
    machine.it = Supervisor::recover(ledger, DEADLINES, 2, at(1));
    machine.run(&[]);
    // What had not left stays; what was not built is gone.
    assert_eq!(machine.cores("web"), [1, 2, 3, 4]);
    assert_eq!(machine.it.ledger().domains().count(), 1);
    assert_eq!(machine.it.ledger().named(name("web")).unwrap().state, Lifecycle::Running);

    let mut damaged = words;
    damaged[SIZE_WORD] = u64::MAX;
    assert_eq!(Ledger::open(damaged).unwrap_err(), Damaged { at: 0 });
}

const SIZE_WORD: usize = 1;

#[test]
fn memory_in_use_stays_and_is_counted() {
    let mut machine = made(&[("web", 1, 0)]);
    let command =
        Command::Resize(Resize { name: name("web"), cores: None, units: Some(1), force: false });
    machine.it.command(at(0), &command).unwrap();
    let id = machine.it.ledger().named(name("web")).unwrap().id;
    machine.it.heard(at(1), id, Message::MemoryRefused(2));
    machine.run(&["web"]);
    let (_, outcome) = machine.told.pop().unwrap();
    assert_eq!(said(outcome), "4 MiB of it are in use; ask for less, or end what uses them");
    assert_eq!(machine.units("web"), 4);
    // What it gives though nobody wants it any more, it gets again.
    machine.sent.clear();
    machine.it.heard(at(2), id, Message::MemoryGiven(Extent { start: 2, count: 1 }));
    machine.run(&[]);
    assert_eq!(
        machine.sent.last(),
        Some(&(id, Message::OfferMemory(Extent { start: 2, count: 1 })))
    );
    assert_eq!(machine.units("web"), 4);
}
