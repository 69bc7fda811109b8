//! Elephant herding optimisation (Wang, Deb, Coelho 2015, ISCBI): each of a clan moves towards its
//! matriarch, she towards the clan's centre; the worst of each clan leaves it for anywhere.

use alloc::vec::Vec;

use super::fixed::{ONE, times, unit};
use super::flock::{self, Member, SIZE};
use crate::{Optimiser, Search, Spent};

/// How many clans there are.
const CLANS: usize = 5;
/// How far one moves towards the matriarch at most.
const ALPHA: i64 = ONE / 2;
/// Which part of the centre the matriarch's next place is.
const BETA: i64 = ONE / 10;

/// The method of Wang, Deb and Coelho with its published parameters.
pub struct ElephantHerding;

impl Optimiser for ElephantHerding {
    fn name(&self) -> &'static str {
        "elephant_herding"
    }

    fn explain(&self) -> &'static str {
        "clans follow their best; the worst of each goes anywhere"
    }

    fn search(&self, search: &mut Search<'_>) -> Result<(), Spent> {
        let mut all = flock::first(search)?;
        let cores = search.problem().cores();
        loop {
            let mut next = Vec::with_capacity(SIZE);
            for clan in 0..CLANS {
                // Of a sorted population every fifth: the first of them leads.
                let clan: Vec<&Member> = all.iter().skip(clan).step_by(CLANS).collect();
                for (index, member) in clan.iter().enumerate() {
                    let random = &mut search.random;
                    let at = if index == 0 {
                        let centre = |core: usize| {
                            clan.iter().map(|it| it.at[core]).sum::<i64>() / clan.len() as i64
                        };
                        (0..cores).map(|core| times(BETA, centre(core))).collect()
                    } else if index + 1 == clan.len() {
                        (0..cores).map(|_| unit(random)).collect()
                    } else {
                        let follow = |(x, best): (&i64, &i64)| {
                            x + times(times(ALPHA, unit(random)), best - x)
                        };
                        member.at.iter().zip(&clan[0].at).map(follow).collect()
                    };
                    next.push(Member::new(at, search)?);
                }
            }
            flock::succeed(&mut all, next);
        }
    }
}
