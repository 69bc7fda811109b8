//! Queries with an objective: of the instances that are as good the one with the least of an
//! attribute. Whoever asks for the best alone sends everybody to one instance, which then is the
//! best no more; so of all within a tenth of the best two are drawn, and the one with fewer
//! subjects is taken (the power of two choices).

use alloc::vec::Vec;

use crate::attribute::cut;
use crate::error::FindError;
use crate::find::{Match, Query};
use crate::registry::Registry;
use crate::service::{Instance, TypeId};

/// What attributes begin with that are measured while instances are called. An instance without
/// one was not called yet: it is held for as good as the best, else it would never be.
pub const MEASURED: &str = "qos_";

/// More subjects than this are not told apart.
const MANY: usize = 1024;

/// What is to be little.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Least<'a> {
    /// The attribute, a number.
    pub attribute: &'a str,
    /// A random number: it decides between instances that are about as good.
    pub random: u64,
}

/// An instance that satisfies a query.
struct Candidate<'e> {
    ty: TypeId,
    instance: &'e Instance,
    score: u32,
    value: Option<i64>,
}

impl Registry {
    /// The instance that a query with an objective means; `None` if there is none with any of the
    /// keywords. `NoOrder` if the attribute of one is no number.
    pub(crate) fn least<'e>(
        &'e self,
        ty: TypeId,
        query: &Query<'_>,
        least: Least<'_>,
    ) -> Result<Option<(TypeId, &'e Instance, Match)>, FindError> {
        let mut all = self.candidates(ty, query, least.attribute)?;
        let score = all.iter().map(|it| it.score).max().unwrap_or(0);
        if score == 0 && !query.keywords.is_empty() {
            return Ok(None);
        }
        all.retain(|it| it.score == score);
        let best = all.iter().filter_map(|it| it.value).min();
        let most = best.map(|best| best.saturating_add(best.saturating_abs() / 10));
        let unknown_is_good = best.is_none() || least.attribute.starts_with(MEASURED);
        all.retain(|it| match (it.value, most) {
            (Some(value), Some(most)) => value <= most,
            _ => unknown_is_good,
        });
        let by = if score > 0 { Match::Keywords(score) } else { Match::Unranked };
        let taken = self.balanced(&all, least.random);
        Ok(taken.map(|it| (it.ty, it.instance, by)))
    }

    fn candidates<'e>(
        &'e self,
        ty: TypeId,
        query: &Query<'_>,
        attribute: &str,
    ) -> Result<Vec<Candidate<'e>>, FindError> {
        let (mut all, mut types) = (Vec::new(), Vec::from([ty]));
        while let Some(ty) = types.pop() {
            let Some(entry) = self.entry(ty) else { continue };
            types.extend(&entry.children);
            let wanted = entry.keywords.resolve(query.keywords);
            for instance in entry.instances().filter(|it| query.is_satisfied_by(it)) {
                let value = instance.number(attribute);
                if value.is_none() && instance.attribute(attribute).is_some() {
                    return Err(FindError::NoOrder(cut(attribute)));
                }
                let score = wanted.score(&instance.keywords);
                all.push(Candidate { ty, instance, score, value });
            }
        }
        Ok(all)
    }

    /// Of two that are drawn the one with fewer subjects; of equal ones the first.
    fn balanced<'c, 'e>(&self, all: &'c [Candidate<'e>], random: u64) -> Option<&'c Candidate<'e>> {
        let count = all.len() as u64;
        let draw = |random: u64, of: u64| ((random * of) >> 32) as usize;
        let (first, second) = (random & u64::from(u32::MAX), random >> 32);
        let one = draw(first, count);
        let Some(others) = count.checked_sub(1).filter(|others| *others > 0) else {
            return all.first();
        };
        let other = draw(second, others);
        let other = if other >= one { other + 1 } else { other };
        let subjects =
            |it: &&Candidate<'_>| self.subjects(it.instance.handle.instance).take(MANY).count();
        [all.get(one)?, all.get(other)?].into_iter().min_by_key(subjects)
    }
}
