//! The optimum, by enumeration. Of cores of one class only counts matter: how many become what. So
//! the search goes through counts, class by class, and leaves out what cannot be better than the
//! best so far even if each core that is left did the work of all its roles at once.

use alloc::vec;
use alloc::vec::Vec;

use nile_abi::RoleSet;

use super::greedy;
use crate::{Optimiser, Problem, Search, Spent, Tally};

/// Enumerates. Where the budget ends before that, its answer is at least as good as the greedy one.
pub struct Exact;

impl Optimiser for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn explain(&self) -> &'static str {
        "the optimum: how many cores become what, for each kind of core"
    }

    fn search(&self, search: &mut Search<'_>) -> Result<(), Spent> {
        greedy::descend(search, &mut search.problem().now())?;
        let classes = Class::all(search.problem());
        // What the classes from each on could do at best.
        let mut rest = vec![Tally::default()];
        for class in classes.iter().rev() {
            let mut tally = *rest.last().unwrap_or(&Tally::default());
            tally.add_best(search.problem(), class.cores[0], class.all, class.cores.len() as u64);
            rest.push(tally);
        }
        rest.reverse();
        let counts = classes.iter().map(|class| vec![0; class.choices.len()]).collect();
        let mut counting = Counting { classes: &classes, rest, counts };
        let first = classes[0].cores.len();
        counting.go(search, 0, 0, first, Tally::default())
    }
}

/// Cores that differ in nothing but what they are now.
struct Class {
    cores: Vec<usize>,
    choices: Vec<RoleSet>,
    /// How many have each choice now.
    had: Vec<usize>,
    /// All roles of all choices.
    all: RoleSet,
}

impl Class {
    fn all(problem: &Problem) -> Vec<Class> {
        let now = problem.now();
        let mut classes: Vec<Class> = Vec::new();
        for (core, set) in now.iter().enumerate() {
            let index = usize::from(problem.class(core));
            if index == classes.len() {
                let choices = problem.choices(core).to_vec();
                let all = choices.iter().flat_map(|set| set.iter()).collect();
                let had = vec![0; choices.len()];
                classes.push(Class { cores: Vec::new(), choices, had, all });
            }
            let class = &mut classes[index];
            class.cores.push(core);
            if let Some(place) = class.choices.iter().position(|choice| choice == set) {
                class.had[place] += 1;
            }
        }
        classes
    }
}

/// The counts that are being tried.
struct Counting<'a> {
    classes: &'a [Class],
    rest: Vec<Tally>,
    counts: Vec<Vec<usize>>,
}

impl Counting<'_> {
    /// Tries all counts from a choice of a class on; `left` of its cores have none yet.
    fn go(
        &mut self,
        search: &mut Search<'_>,
        index: usize,
        choice: usize,
        left: usize,
        tally: Tally,
    ) -> Result<(), Spent> {
        let problem = search.problem();
        search.spend()?;
        let Some(class) = self.classes.get(index) else {
            let cost = tally.cost(problem);
            if tally.covers(problem) && cost < search.best().1 {
                search.offer(cost, &self.assignment(problem));
            }
            return Ok(());
        };
        let mut hope = tally;
        hope.merge(&self.rest[index + 1]);
        hope.add_best(problem, class.cores[0], class.all, left as u64);
        if !hope.covers(problem) || hope.cost(problem) >= search.best().1 {
            return Ok(());
        }
        let is_last = choice + 1 == class.choices.len();
        for count in if is_last { left } else { 0 }..=left {
            let mut next = tally;
            next.add(problem, class.cores[0], class.choices[choice], count as u64);
            let changed = count.saturating_sub(class.had[choice]) as u64;
            next.change += changed * problem.price(class.cores[0]);
            self.counts[index][choice] = count;
            if is_last {
                let cores = self.classes.get(index + 1).map_or(0, |class| class.cores.len());
                self.go(search, index + 1, 0, cores, next)?;
            } else {
                self.go(search, index, choice + 1, left - count, next)?;
            }
        }
        Ok(())
    }

    /// An assignment of these counts, in which as many cores as can be stay what they are.
    fn assignment(&self, problem: &Problem) -> Vec<RoleSet> {
        let mut roles = problem.now();
        for (class, counts) in self.classes.iter().zip(&self.counts) {
            let mut counts = counts.clone();
            let mut moving = Vec::new();
            for core in &class.cores {
                let place = class.choices.iter().position(|choice| *choice == roles[*core]);
                match place.map(|place| &mut counts[place]) {
                    Some(count) if *count > 0 => *count -= 1,
                    _ => moving.push(*core),
                }
            }
            let free = class.choices.iter().zip(counts);
            let free = free.flat_map(|(choice, count)| core::iter::repeat_n(*choice, count));
            for (core, choice) in moving.into_iter().zip(free) {
                roles[core] = choice;
            }
        }
        roles
    }
}
