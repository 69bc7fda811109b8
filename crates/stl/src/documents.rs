//! What instances elsewhere say about themselves, remembered: who calls by a method's name, or in
//! text, needs the schema for every call, and that may be much longer than the call.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use nile_bosml::discovery;

use crate::host::Place;
use crate::{CallResult, MethodNumber};

/// How many are remembered; the one that was used longest ago goes.
const MOST: usize = 16;

/// What an instance says about itself.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Document {
    /// The discovery document.
    pub text: Rc<str>,
    /// The names of the methods, in the order of their numbers.
    methods: Vec<String>,
}

impl Document {
    /// The document that an instance gave.
    pub fn parse(text: &str) -> CallResult<Document> {
        let schema = discovery::parse(text)?;
        let methods = schema.methods.iter().map(|method| method.name.as_ref().into()).collect();
        Ok(Document { text: text.into(), methods })
    }

    /// The number of a method, if there is one of that name.
    pub fn method(&self, name: &str) -> Option<MethodNumber> {
        let number = self.methods.iter().position(|known| known == name)?;
        Some(MethodNumber(number as u16))
    }
}

/// Documents by instance. A place is never given to another instance, so a document holds as long
/// as its place leads anywhere.
#[derive(Default)]
pub(crate) struct Documents(RefCell<VecDeque<(Place, Rc<Document>)>>);

impl Documents {
    /// The document of the instance at `place`, if it was asked for lately.
    pub fn get(&self, place: Place) -> Option<Rc<Document>> {
        let mut all = self.0.borrow_mut();
        let at = all.iter().position(|(known, _)| *known == place)?;
        let found = all.remove(at)?;
        let document = found.1.clone();
        all.push_front(found);
        Some(document)
    }

    /// Remembers the document of the instance at `place`.
    pub fn put(&self, place: Place, document: &Rc<Document>) {
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

    fn document(method: &str) -> Rc<Document> {
        Rc::new(Document { text: "".into(), methods: [method.into()].into() })
    }

    fn known(documents: &Documents, place: Place, method: &str) -> bool {
        documents.get(place).is_some_and(|it| it.method(method) == Some(MethodNumber(0)))
    }

    #[test]
    fn those_that_are_used_stay() {
        let documents = Documents::default();
        for number in 0..MOST as u16 {
            documents.put(place(number), &document("old"));
        }
        assert!(known(&documents, place(0), "old"));
        documents.put(place(99), &document("new"));
        assert!(known(&documents, place(0), "old") && !known(&documents, place(0), "new"));
        assert_eq!(documents.get(place(1)), None, "it was used longest ago");
        assert!(known(&documents, place(99), "new"));
        let successor = Place { generation: Generation(4), ..place(99) };
        assert_eq!(documents.get(successor), None);
    }

    #[test]
    fn an_instance_has_one_document() {
        let documents = Documents::default();
        documents.put(place(1), &document("a"));
        documents.put(place(1), &document("b"));
        assert!(known(&documents, place(1), "b"));
        assert_eq!(documents.0.borrow().len(), 1);
    }
}
