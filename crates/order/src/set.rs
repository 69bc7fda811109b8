//! A set that is a sorted row. What is not said is as in `BTreeSet`.

use alloc::vec::{self, Vec};
use core::borrow::Borrow;
use core::fmt;
use core::ops::RangeBounds;
use core::slice;

use crate::{sort, within};

/// A set in the order of its items, for few items or for such as seldom come and go.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SortedSet<T>(Vec<T>);

impl<T> SortedSet<T> {
    /// An empty set, which takes no memory.
    pub const fn new() -> Self {
        SortedSet(Vec::new())
    }

    /// How many items there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all items; keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The lowest item.
    pub fn first(&self) -> Option<&T> {
        self.0.first()
    }

    /// The highest item.
    pub fn last(&self) -> Option<&T> {
        self.0.last()
    }

    /// Removes the lowest item.
    pub fn pop_first(&mut self) -> Option<T> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    /// The items in order.
    pub fn iter(&self) -> slice::Iter<'_, T> {
        self.0.iter()
    }

    /// Keeps the items that `keeps` says so of.
    pub fn retain(&mut self, keeps: impl FnMut(&T) -> bool) {
        self.0.retain(keeps);
    }
}

impl<T: Ord> SortedSet<T> {
    /// Where an item is, or where it would be.
    fn place<Q: Ord + ?Sized>(&self, item: &Q) -> Result<usize, usize>
    where
        T: Borrow<Q>,
    {
        self.0.binary_search_by(|it| it.borrow().cmp(item))
    }

    /// Whether the item is there.
    pub fn contains<Q: Ord + ?Sized>(&self, item: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.place(item).is_ok()
    }

    /// Adds an item; `false`: it was there.
    pub fn insert(&mut self, item: T) -> bool {
        let place = self.place(&item);
        if let Err(at) = place {
            self.0.insert(at, item);
        }
        place.is_err()
    }

    /// Removes an item; `false`: it was not there.
    pub fn remove<Q: Ord + ?Sized>(&mut self, item: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        let place = self.place(item);
        if let Ok(at) = place {
            self.0.remove(at);
        }
        place.is_ok()
    }

    /// The items within these bounds, in order. None if the bounds are the wrong way round, where
    /// `BTreeSet` panics.
    pub fn range<Q: Ord + ?Sized>(&self, bounds: impl RangeBounds<Q>) -> slice::Iter<'_, T>
    where
        T: Borrow<Q>,
    {
        let range = within(&bounds, self.0.len(), |item| self.place(item));
        self.0[range].iter()
    }

    /// The items that are not in `other`, in order.
    pub fn difference<'a>(&'a self, other: &'a SortedSet<T>) -> impl Iterator<Item = &'a T> {
        self.iter().filter(|item| !other.contains(*item))
    }
}

impl<T> Default for SortedSet<T> {
    fn default() -> Self {
        SortedSet::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for SortedSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self).finish()
    }
}

impl<T: Ord> FromIterator<T> for SortedSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut rows: Vec<T> = items.into_iter().collect();
        sort(&mut rows);
        rows.dedup();
        SortedSet(rows)
    }
}

impl<T: Ord, const N: usize> From<[T; N]> for SortedSet<T> {
    fn from(items: [T; N]) -> Self {
        items.into_iter().collect()
    }
}

impl<T: Ord> Extend<T> for SortedSet<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        for item in items {
            self.insert(item);
        }
    }
}

impl<T> IntoIterator for SortedSet<T> {
    type Item = T;
    type IntoIter = vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a SortedSet<T> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
