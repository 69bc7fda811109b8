//! A domain of the simulated machine: the protocol's end that real ones have, over a kernel that
//! may be slow, stubborn or dead.

use std::collections::BTreeSet;

use nile_domain::{DomainId, Extent, Managing};
use rand_chacha::ChaCha8Rng;

use super::Conduct;
use crate::draw::below;

/// What a domain is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// It does what it is asked.
    Good,
    /// Its cores do not leave when they are asked.
    Stays,
    /// It says that they do not.
    Refuses,
    /// All its memory is in use.
    Full,
    /// It does nothing at all.
    Hangs,
}

impl Manner {
    pub fn draw(random: &mut ChaCha8Rng) -> Manner {
        match below(random, 12) {
            0 => Manner::Stays,
            1 => Manner::Refuses,
            2 => Manner::Full,
            3 => Manner::Hangs,
            _ => Manner::Good,
        }
    }
}

/// A domain.
pub struct Guest {
    pub id: DomainId,
    pub manner: Manner,
    pub end: Managing,
    /// The memory that it thinks it has.
    pub units: BTreeSet<u32>,
    /// What it shares with others.
    pub shared: BTreeSet<u32>,
    /// Cores that it has asked to leave.
    pub leaving: BTreeSet<u16>,
    /// Cores that have to start before it runs.
    pub waits_for: BTreeSet<u16>,
    /// Whether it does anything but run on its cores.
    pub lives: bool,
}

impl Guest {
    pub fn new(id: DomainId, manner: Manner, cores: &[u16], units: &[Extent]) -> Guest {
        Guest {
            id,
            manner,
            end: Managing::new(cores.iter().copied()),
            units: units.iter().flat_map(|extent| extent.units()).collect(),
            shared: BTreeSet::new(),
            leaving: BTreeSet::new(),
            waits_for: cores.iter().copied().collect(),
            lives: true,
        }
    }

    /// Finds so many units and forgets them, or says how many are missing. It keeps one.
    pub fn find(&mut self, wanted: u32, conduct: Conduct) -> Result<Vec<Extent>, u32> {
        let spare = match self.manner {
            Manner::Full => 0,
            _ => (self.units.len() as u32).saturating_sub(1),
        };
        if spare < wanted {
            return Err(wanted - spare);
        }
        let found: Vec<u32> = self.units.iter().rev().take(wanted as usize).copied().collect();
        if !conduct.keeps_given_memory {
            self.units.retain(|unit| !found.contains(unit));
        }
        Ok(found.into_iter().map(|start| Extent { start, count: 1 }).collect())
    }
}
