//! Any commands in any order, beside a model that keeps two maps and knows nothing of words,
//! phases or messages.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use proptest::prelude::*;

use super::{Machine, SIZES, name};
use crate::*;

const NAMES: [&str; 3] = ["web", "batch", "log"];

fn some_command() -> impl Strategy<Value = Command> {
    let some_name = || proptest::sample::select(&NAMES[..]).prop_map(name);
    let create = (some_name(), 0u16..5, 0u32..20, 1u16..3, 0u8..3, 0u16..4).prop_map(
        |(name, cores, units, least, priority, device)| {
            let limits = Limits { cores: (least, 5), units: (1, 20), priority };
            let device = (device < 3).then_some(device);
            Command::Create(Create { name, cores, units, limits, device })
        },
    );
    let resize = (some_name(), proptest::option::of(0u16..7), proptest::option::of(0u32..24))
        .prop_map(|(name, cores, units)| {
            Command::Resize(Resize { name, cores, units, force: false })
        });
    let destroy =
        (some_name(), any::<bool>()).prop_map(|(name, force)| Command::Destroy { name, force });
    prop_oneof![3 => create, 4 => resize, 1 => destroy]
}

/// A domain of the model.
struct Held {
    cores: u16,
    units: u32,
    device: Option<u16>,
    limits: Limits,
}

#[derive(Default)]
struct Model(BTreeMap<Name, Held>);

impl Model {
    fn free_cores(&self) -> u16 {
        SIZES.cores - 1 - self.0.values().map(|it| it.cores).sum::<u16>()
    }

    fn free_units(&self) -> u32 {
        SIZES.units - 2 - self.0.values().map(|it| it.units).sum::<u32>()
    }

    /// Takes cores of lower priority, lowest first; says whether all could be had.
    fn take(&mut self, wanted: u16, priority: u8) -> bool {
        let spare = |it: &Held| {
            if it.limits.priority < priority {
                it.cores.saturating_sub(it.limits.cores.0)
            } else {
                0
            }
        };
        let mut missing = wanted.saturating_sub(self.free_cores());
        if missing > self.0.values().map(spare).sum() {
            return false;
        }
        for least in 0..priority {
            for it in self.0.values_mut().filter(|it| it.limits.priority == least) {
                // Of those of one priority, which gives is not the model's business.
                let gives = spare(it).min(missing);
                it.cores -= gives;
                missing -= gives;
            }
        }
        true
    }

    fn has_tie(&self, priority: u8) -> bool {
        let lower = self.0.values().map(|it| it.limits.priority).filter(|it| *it < priority);
        let lower: Vec<u8> = lower.collect();
        lower.iter().collect::<BTreeSet<_>>().len() < lower.len()
    }

    /// Whether the command is carried out.
    fn command(&mut self, command: &Command) -> bool {
        let within = |cores: u16, units: u32, limits: &Limits| {
            (limits.cores.0.max(1)..=limits.cores.1).contains(&cores)
                && (limits.units.0.max(1)..=limits.units.1).contains(&units)
        };
        match *command {
            Command::Create(Create { name, cores, units, limits, device }) => {
                let is_used = self.0.values().any(|it| device.is_some() && it.device == device);
                let is_right = !self.0.contains_key(&name)
                    && within(cores, units, &limits)
                    && device.is_none_or(|device| device < SIZES.devices && !is_used)
                    && units <= self.free_units();
                if !is_right || !self.take(cores, limits.priority) {
                    return false;
                }
                self.0.insert(name, Held { cores, units, device, limits });
                true
            }
            Command::Resize(Resize { name, cores, units, .. }) => {
                let Some(held) = self.0.get(&name) else { return false };
                let (has, limits) = ((held.cores, held.units), held.limits);
                let (cores, units) = (cores.unwrap_or(has.0), units.unwrap_or(has.1));
                let more = units.saturating_sub(has.1);
                if !within(cores, units, &limits)
                    || more > self.free_units()
                    || cores > has.0 && !self.take(cores - has.0, limits.priority)
                {
                    return false;
                }
                let held = self.0.get_mut(&name).unwrap();
                (held.cores, held.units) = (cores, units);
                true
            }
            Command::Destroy { name, .. } => self.0.remove(&name).is_some(),
            Command::Lend { .. } | Command::Recall { .. } => false,
        }
    }
}

proptest! {
    #[test]
    fn the_ledger_is_what_the_model_says(
        commands in proptest::collection::vec(some_command(), 1..40),
    ) {
        let mut machine = Machine::new();
        let mut model = Model::default();
        for command in commands {
            // What is planned is what happens.
            let plan = machine.it.plan(&command);
            let ties = match command {
                Command::Create(Create { limits, .. }) => model.has_tie(limits.priority),
                Command::Resize(Resize { name, .. }) => {
                    let priority = model.0.get(&name).map(|it| it.limits.priority);
                    priority.is_some_and(|it| model.has_tie(it))
                }
                _ => false,
            };
            let done = machine.command(command, &[]);
            prop_assert_eq!(plan.map(drop), done.clone());
            prop_assert_eq!(done.is_ok(), model.command(&command), "{:?}: {:?}", command, done);
            machine.run(&[]);
            let ledger = machine.it.ledger();
            prop_assert!(Ledger::open(ledger.words().clone()).is_ok());
            for (name, held) in &mut model.0 {
                let text = name.as_str();
                let cores = machine.cores(text).len() as u16;
                if ties {
                    held.cores = cores;
                }
                prop_assert_eq!((cores, machine.units(text)), (held.cores, held.units), "{}", name);
                prop_assert!((held.limits.cores.0..=held.limits.cores.1).contains(&cores));
                let slot = ledger.named(*name).unwrap().id.slot;
                let device = ledger.devices().find(|(_, it)| it.is_of(slot)).map(|(it, _)| it);
                prop_assert_eq!(device, held.device);
            }
            let free = ledger.cores_with(|it| it.phase == Phase::Free).len();
            prop_assert_eq!(free, usize::from(model.free_cores()));
            let free = ledger.units_with(|it| it.phase == Phase::Free);
            prop_assert_eq!(free, model.free_units());
            prop_assert_eq!(ledger.domains().count(), model.0.len());
        }
    }

    /// As few extents as there can be, none twice, all free.
    #[test]
    fn memory_is_chosen_in_few_extents(
        taken in proptest::collection::btree_set(2u32..32, 0..30),
        wanted in 0u32..32,
    ) {
        let mut ledger = super::ledger();
        let id = ledger.empty_slot().unwrap();
        for unit in &taken {
            ledger.hand(Thing::Unit(*unit), Some(id), Party::Pool);
        }
        let free: BTreeSet<u32> = (2..32).filter(|unit| !taken.contains(unit)).collect();
        match ledger.choose(wanted) {
            None => prop_assert!(wanted as usize > free.len()),
            Some(extents) => {
                let units: Vec<u32> = extents.iter().flat_map(|it| it.units()).collect();
                prop_assert_eq!(units.len(), wanted as usize);
                prop_assert!(units.iter().all(|unit| free.contains(unit)));
                prop_assert_eq!(units.iter().collect::<BTreeSet<_>>().len(), units.len());
                let longest = ledger.extents_with(|it| it.phase == Phase::Free);
                let longest = longest.iter().map(|it| it.count).max().unwrap_or(0);
                prop_assert_eq!(extents.len() <= 1, wanted <= longest);
            }
        }
    }
}
