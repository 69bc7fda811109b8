//! What domains are charged for.

use alloc::string::ToString;
use core::time::Duration;

use super::{DEADLINES, Machine, SIZES, create, name};
use crate::*;

impl Machine {
    fn account(&self, text: &str) -> Account {
        let slot = self.it.ledger().named(name(text)).unwrap().id.slot;
        self.it.ledger().account(slot, self.now)
    }

    fn passes(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
    }
}

fn resize(text: &str, cores: u16, units: u32) -> Command {
    let (cores, units) = (Some(cores), Some(units));
    Command::Resize(Resize { name: name(text), cores, units, force: false })
}

#[test]
fn a_domain_is_charged_for_what_it_had_while_it_had_it() {
    let mut machine = Machine::new();
    machine.passes(1000);
    machine.command(Command::Create(create("web", 2, 4)), &[]).unwrap();
    machine.passes(10);
    machine.command(resize("web", 3, 8), &[]).unwrap();
    machine.passes(100);
    machine.command(resize("web", 1, 2), &[]).unwrap();
    machine.passes(1);
    let age = Duration::from_millis(111);
    let charged = Account { age, core_micros: 321_000, unit_micros: 842_000 };
    assert_eq!(machine.account("web"), charged);

    // A supervisor that begins anew charges for the time in which there was none.
    let ledger = machine.it.into_ledger();
    machine.it = Supervisor::recover(ledger, DEADLINES, 9, machine.now);
    machine.run(&[]);
    machine.passes(1000);
    assert_eq!(machine.account("web").core_micros, 1_321_000);

    // The next domain of the place owes nothing of that.
    machine.command(Command::Destroy { name: name("web"), force: true }, &[]).unwrap();
    machine.passes(50);
    machine.command(Command::Create(create("next", 1, 1)), &[]).unwrap();
    assert_eq!(machine.account("next"), Account::default());
}

#[test]
fn who_has_a_lent_core_is_charged_for_it() {
    let mut machine = Machine::new();
    for (text, cores) in [("batch", 3), ("web", 1)] {
        machine.command(Command::Create(create(text, cores, 1)), &[]).unwrap();
    }
    let lend = Command::Lend { from: name("batch"), to: name("web"), cores: 2, millis: 5000 };
    machine.command(lend, &[]).unwrap();
    machine.passes(1000);
    let charged = |text| machine.account(text).core_micros;
    assert_eq!((charged("batch"), charged("web")), (1_000_000, 3_000_000));
    // All that was charged for is what there was to have.
    let all = charged("batch") + charged("web");
    assert!(all <= u64::from(SIZES.cores) * 1_000_000);
}

#[test]
fn a_limit_outlives_the_supervisor_and_not_the_domain() {
    let mut machine = Machine::new();
    let web = name("web");
    let change = LimitChange { rate: Some(1000), burst: None, weight: Some(3) };
    let unknown = machine.it.limit(web, Way::Network, change);
    assert!(matches!(unknown, Err(Refused::Unknown { .. })), "{unknown:?}");
    machine.command(Command::Create(create("web", 2, 4)), &[]).unwrap();
    assert_eq!(machine.it.ledger().limit(Way::Network, 1), Limit::default());
    let limit = machine.it.limit(web, Way::Network, change).unwrap();
    assert_eq!((limit.rate.map(|it| it.get()), limit.burst, limit.weight), (Some(1000), 65536, 3));
    // Whoever moves frames adds to what stands behind it.
    let carried = Carried { passed: 2, bytes: 300, dropped: 1, time: Duration::from_micros(7) };
    let mut words = machine.it.into_ledger().into_words();
    let counters = &mut words[Sizes::toll(Way::Network, 1) + Limit::WORDS..];
    for (word, more) in counters.iter_mut().zip(carried.to_words()) {
        *word += more;
    }
    let ledger = Ledger::open(words).unwrap();
    machine.it = Supervisor::recover(ledger, DEADLINES, 9, machine.now);
    let ledger = machine.it.ledger();
    assert_eq!((ledger.limit(Way::Network, 1), ledger.carried(Way::Network, 1)), (limit, carried));
    assert_eq!(
        (ledger.limit(Way::Network, 2), ledger.carried(Way::Network, 2)),
        Default::default()
    );
    assert_eq!((ledger.limit(Way::Disk, 1), ledger.carried(Way::Disk, 1)), Default::default());

    let too_small = LimitChange { burst: Some(100), ..LimitChange::default() };
    let refused = machine.it.limit(web, Way::Network, too_small).unwrap_err().to_string();
    assert_eq!(refused, "a burst is 2048 to 1073741824, and not 100");
    let refused = machine.it.limit(web, Way::Disk, LimitChange { burst: Some(4096), ..too_small });
    assert_eq!(refused.unwrap_err().to_string(), "a burst is 65536 to 1073741824, and not 4096");
    let of_disk = machine.it.limit(web, Way::Disk, change).unwrap();
    assert_eq!(machine.it.ledger().limit(Way::Disk, 1), of_disk);
    let unlimited = LimitChange { rate: Some(0), ..LimitChange::default() };
    let unlimited = machine.it.limit(web, Way::Network, unlimited).unwrap();
    assert_eq!(unlimited, Limit { rate: None, ..limit });

    machine.command(Command::Destroy { name: web, force: true }, &[]).unwrap();
    machine.command(Command::Create(create("next", 1, 1)), &[]).unwrap();
    let ledger = machine.it.ledger();
    assert_eq!(
        (ledger.limit(Way::Network, 1), ledger.carried(Way::Network, 1)),
        Default::default()
    );
}
