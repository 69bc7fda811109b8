//! What users command: anything, at any moment, with names of a few.

use nile_domain::{Command, Create, Limits, Name, Resize};
use rand_chacha::ChaCha8Rng;

use crate::draw::below;

const NAMES: [&str; 6] = ["web", "batch", "search", "log", "red", "blue"];

fn name(random: &mut ChaCha8Rng) -> Name {
    let name = NAMES[below(random, NAMES.len() as u64) as usize];
    name.parse().expect("it is a name")
}

/// A command for a machine of so many cores and units.
pub fn draw(random: &mut ChaCha8Rng, cores: u16, units: u32) -> Command {
    let mut of = |most: u64| below(random, most.max(1));
    let (cores, units) = (u64::from(cores), u64::from(units));
    let some_cores = 1 + of(cores / 2 + 1) as u16;
    let some_units = 1 + of(units / 3) as u32;
    match of(10) {
        0..=3 => {
            let least = 1 + of(some_cores.into()) as u16;
            let limits = Limits {
                cores: (least, some_cores + of(4) as u16),
                units: (1 + of(some_units.into()) as u32, some_units + of(units / 4) as u32),
                priority: of(4) as u8,
            };
            let device = (of(3) == 0).then(|| of(3) as u16);
            let name = name(random);
            Command::Create(Create { name, cores: some_cores, units: some_units, limits, device })
        }
        4..=6 => {
            let cores = (of(3) > 0).then_some(some_cores);
            let units = (of(3) > 0).then_some(some_units);
            let force = of(2) == 0;
            Command::Resize(Resize { name: name(random), cores, units, force })
        }
        7 if of(3) == 0 => {
            let force = of(3) == 0;
            Command::Destroy { name: name(random), force }
        }
        7 | 8 => {
            let (cores, millis) = (1 + of(2) as u16, 1 + of(60) as u32);
            Command::Lend { from: name(random), to: name(random), cores, millis }
        }
        _ => Command::Recall { from: name(random) },
    }
}

/// What users call memory that domains share.
pub fn share(random: &mut ChaCha8Rng) -> Name {
    let name = ["ranks", "table", "ring"][below(random, 3) as usize];
    name.parse().expect("it is a name")
}
