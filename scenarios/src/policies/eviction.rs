//! Policies of page replacement (Dhara, IV.B), as services: which page leaves memory next.

use alloc::vec::Vec;
use core::cell::RefCell;

/// The pages that a policy was told of.
#[derive(Default)]
struct Pages(RefCell<Vec<u64>>);

impl Pages {
    /// Puts a page last; one that was there already only if `again`.
    fn note(&self, page: u64, again: bool) {
        let mut pages = self.0.borrow_mut();
        let known = pages.iter().position(|known| *known == page);
        match known {
            Some(at) if again => drop(pages.remove(at)),
            Some(_) => return,
            None => {}
        }
        pages.push(page);
    }

    /// Takes the first page, or the last one; 0 if there is none.
    fn take(&self, last: bool) -> u64 {
        let mut pages = self.0.borrow_mut();
        if pages.is_empty() {
            return 0;
        }
        let at = if last { pages.len() - 1 } else { 0 };
        pages.remove(at)
    }
}

/// What every node has, and the type of all of them: one pool of pages for all processes.
pub mod least_recent {
    use super::Pages;
    use nile_stl::{Start, Stl, service};

    pub struct LeastRecent(Pages);

    impl Start for LeastRecent {
        fn start(_: &Stl) -> LeastRecent {
            LeastRecent(Pages::default())
        }
    }

    /// The page that was not used for the longest time leaves.
    #[service(
        subsystem = "memory management",
        capability = "page replacement",
        layer = high,
        keywords(general = 5, locality = 3),
        attributes(global_priority = 20, queue = 4096),
        type(
            name = "eviction",
            attributes(global_priority: int, queue: int in 1..=4096),
            parameters(queue: int in 1..=4096, optional label: text in 1..=8),
            state(resident = 0),
        ),
    )]
    impl LeastRecent {
        /// A page was used.
        #[stl_k(allow(package, operator, peer))]
        fn touch(&self, page: u64) {
            self.0.note(page, true);
        }

        /// The page that leaves; 0 if there is none.
        #[stl_k(reply = "page", allow(package, operator, peer))]
        fn victim(&self) -> u64 {
            self.0.take(false)
        }
    }
}

/// For what is read once from the start to the end, and the type of those that keep a bucket of
/// pages for each process.
pub mod first_in {
    use super::Pages;
    use nile_stl::{Start, Stl, service};

    pub struct FirstIn(Pages);

    impl Start for FirstIn {
        fn start(_: &Stl) -> FirstIn {
            FirstIn(Pages::default())
        }
    }

    /// The page that came first leaves.
    #[service(
        subsystem = "memory management",
        capability = "bucket replacement",
        keywords(sequential = 6, scan = 2),
        attributes(global_priority = 10, queue = 100, order = "arrival"),
        type(
            name = "bucket_eviction",
            extends = super::least_recent::TYPE,
            attributes(order: text in 1..=8),
            parameters(optional threshold: int in 1..=4096),
            default = none,
        ),
    )]
    impl FirstIn {
        /// A page was used.
        #[stl_k(allow(package, operator, peer))]
        fn touch(&self, page: u64) {
            self.0.note(page, false);
        }

        /// The page that leaves.
        #[stl_k(reply = "page", allow(package, operator, peer))]
        fn victim(&self) -> u64 {
            self.0.take(false)
        }
    }
}

/// For what is read from the start to the end again and again.
pub mod most_recent {
    use super::Pages;
    use nile_stl::{Start, Stl, service};

    pub struct MostRecent(Pages);

    impl Start for MostRecent {
        fn start(_: &Stl) -> MostRecent {
            MostRecent(Pages::default())
        }
    }

    /// The page that was used last leaves.
    #[service(
        type = super::first_in::TYPE,
        keywords(sequential = 2, scan = 6, cyclic = 4),
        attributes(global_priority = 10, queue = 2000, order = "use"),
    )]
    impl MostRecent {
        /// A page was used.
        #[stl_k(allow(package, operator, peer))]
        fn touch(&self, page: u64) {
            self.0.note(page, true);
        }

        /// The page that leaves.
        #[stl_k(reply = "page", allow(package, operator, peer))]
        fn victim(&self) -> u64 {
            self.0.take(true)
        }

        /// What only this policy has: how many pages it knows.
        #[stl_k(reply = "pages", allow(package, operator, peer))]
        fn pages(&self) -> u64 {
            self.0.0.borrow().len() as u64
        }
    }
}
