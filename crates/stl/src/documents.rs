//! What instances elsewhere say about themselves, remembered: who calls by a method's name, or in
//! text, needs the schema for every call, and that may be much longer than the call.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use core::cell::RefCell;

use crate::host::Place;

/// How many are remembered; the one that was used longest ago goes.
const MOST: usize = 16;

/// Discovery documents by instance. A place is never given to another instance, so a document holds
/// as long as its place leads anywhere.
#[derive(Default)]
pub(crate) struct Documents(RefCell<VecDeque<(Place, Rc<str>)>>);

impl Documents {
    /// The document of the instance at `place`, if it was asked for lately.
    pub fn get(&self, place: Place) -> Option<Rc<str>> {
        let mut all = self.0.borrow_mut();
        let at = all.iter().position(|(known, _)| *known == place)?;
        let found = all.remove(at)?;
        let document = found.1.clone();
        all.push_front(found);
        Some(document)
    }

    /// Remembers the document of the instance at `place`.
    pub fn put(&self, place: Place, document: &Rc<str>) {
        let mut all = self.0.borrow_mut();
        all.retain(|(known, _)| *known != place);
        all.truncate(MOST - 1);
        all.push_front((place, document.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServiceNumber;
    use nile_abi::{CoreId, Generation, NodeId};

    fn place(number: u16) -> Place {
        let (node, core, generation) = (NodeId(1), CoreId(2), Generation(3));
        Place { node, core, generation, number: ServiceNumber(number) }
    }

    #[test]
    fn those_that_are_used_stay() {
        let documents = Documents::default();
        for number in 0..MOST as u16 {
            documents.put(place(number), &"old".into());
        }
        assert_eq!(documents.get(place(0)).as_deref(), Some("old"));
        documents.put(place(99), &"new".into());
        assert_eq!(documents.get(place(0)).as_deref(), Some("old"));
        assert_eq!(documents.get(place(1)), None, "it was used longest ago");
        assert_eq!(documents.get(place(99)).as_deref(), Some("new"));
        let successor = Place { generation: Generation(4), ..place(99) };
        assert_eq!(documents.get(successor), None);
    }

    #[test]
    fn an_instance_has_one_document() {
        let documents = Documents::default();
        documents.put(place(1), &"a".into());
        documents.put(place(1), &"b".into());
        assert_eq!(documents.get(place(1)).as_deref(), Some("b"));
        assert_eq!(documents.0.borrow().len(), 1);
    }
}
