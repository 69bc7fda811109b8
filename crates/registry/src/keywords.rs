//! The keywords of one type's instances: each word is kept once, with the rows that have it.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use nile_order::SortedMap;

use crate::limits::MAX_QUERY_KEYWORDS;
use crate::postings::{self, Postings};
use crate::service::Keyword;

/// A word of one type. Used again when no row has the word any more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct KeywordId(u32);

/// The words, and their rows.
#[derive(Default)]
pub(crate) struct Keywords {
    ids: SortedMap<Arc<str>, KeywordId>,
    words: Vec<(Arc<str>, Postings)>,
    free: Vec<KeywordId>,
}

impl Keywords {
    /// Adds a row, which comes after all others, and gives its keywords in the order of numbers.
    pub(crate) fn add(&mut self, row: u32, keywords: &[Keyword]) -> Box<[(KeywordId, u16)]> {
        let ids = keywords.iter().map(|keyword| (self.intern(&keyword.word), keyword.weight));
        let mut ids: Box<[_]> = ids.collect();
        nile_order::sort(&mut ids);
        self.push(row, &ids);
        ids
    }

    /// Adds a row again, after [`Keywords::clear_rows`].
    pub(crate) fn push(&mut self, row: u32, keywords: &[(KeywordId, u16)]) {
        for (id, weight) in keywords {
            self.words[id.0 as usize].1.push(row, *weight);
        }
    }

    fn intern(&mut self, word: &str) -> KeywordId {
        if let Some(id) = self.ids.get(word) {
            return *id;
        }
        let word: Arc<str> = word.into();
        let entry = (word.clone(), Postings::default());
        let id = match self.free.pop() {
            Some(id) => {
                self.words[id.0 as usize] = entry;
                id
            }
            None => {
                self.words.push(entry);
                KeywordId(self.words.len() as u32 - 1)
            }
        };
        self.ids.insert(word, id);
        id
    }

    /// Takes a row out, and the words that nothing else has.
    pub(crate) fn remove(&mut self, row: u32, keywords: &[(KeywordId, u16)]) {
        for (id, _) in keywords {
            let (word, postings) = &mut self.words[id.0 as usize];
            postings.remove(row);
            if postings.is_empty() {
                self.ids.remove(word);
                self.words[id.0 as usize] = Default::default();
                self.free.push(*id);
            }
        }
    }

    /// Forgets all rows and keeps the words; the rows are then added again.
    pub(crate) fn clear_rows(&mut self) {
        self.words.iter_mut().for_each(|(_, postings)| postings.clear());
    }

    /// The word of this number.
    pub(crate) fn word(&self, id: KeywordId) -> &str {
        &self.words[id.0 as usize].0
    }

    /// Which of these words any row has; one that stands there twice counts once.
    pub(crate) fn resolve(&self, words: &[&str]) -> Wanted {
        let mut wanted = Wanted { ids: [KeywordId(0); MAX_QUERY_KEYWORDS], count: 0 };
        let known = words.iter().take(MAX_QUERY_KEYWORDS).filter_map(|word| self.ids.get(*word));
        for id in known {
            if !wanted.ids().contains(id) {
                wanted.ids[wanted.count] = *id;
                wanted.count += 1;
            }
        }
        wanted
    }

    /// The row that matches best, and its score; of several the first. `accept` is asked only
    /// about rows that would be the best so far.
    pub(crate) fn best(
        &self,
        wanted: &Wanted,
        accept: impl FnMut(u32) -> bool,
    ) -> Option<(u32, u32)> {
        let none = Postings::default();
        let mut lists = [&none; MAX_QUERY_KEYWORDS];
        for (list, id) in lists.iter_mut().zip(wanted.ids()) {
            *list = &self.words[id.0 as usize].1;
        }
        postings::best(&lists[..wanted.count], accept)
    }
}

/// Known words of a query.
pub(crate) struct Wanted {
    ids: [KeywordId; MAX_QUERY_KEYWORDS],
    count: usize,
}

impl Wanted {
    fn ids(&self) -> &[KeywordId] {
        &self.ids[..self.count]
    }

    /// What an instance with these keywords scores.
    pub(crate) fn score(&self, keywords: &[(KeywordId, u16)]) -> u32 {
        let matched = keywords.iter().filter(|(id, _)| self.ids().contains(id));
        matched.map(|(_, weight)| u32::from(*weight)).sum()
    }
}
