//! Lists that may have more entries than a reply has room for.

use alloc::vec::Vec;

use nile_bosml::{Encode, Writer};

/// Bytes of a page: half of what a reply has room for, so that it does not matter what else is in
/// it.
pub const MOST_BYTES: usize = nile_bosml::MAX_MESSAGE / 2;

/// The first entries, as many as have room in a reply.
pub fn page<T: Encode>(entries: impl Iterator<Item = T>) -> Vec<T> {
    let mut writer = Writer::new();
    let fitting = entries.take_while(|entry| {
        entry.encode(&mut writer);
        writer.len() <= MOST_BYTES
    });
    fitting.collect()
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec;

    use super::*;

    #[test]
    fn a_page_fits_and_the_next_goes_on() {
        let all: Vec<String> = (0..1000).map(|at| "x".repeat(at % 200)).collect();
        let mut found = Vec::new();
        while found.len() < all.len() {
            let more = page(all.iter().skip(found.len()).cloned());
            assert!(!more.is_empty());
            let mut reply = Writer::new();
            more.encode(&mut reply);
            assert!(reply.into_bytes().is_ok());
            found.extend(more);
        }
        assert_eq!(found, all);
        assert_eq!(page(vec![1u32; 100_000].into_iter()).len(), MOST_BYTES / 4);
    }
}
