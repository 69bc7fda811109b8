//! Reading discovery documents, which come from other nodes.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::error::{Error, ErrorKind, excerpt};
use crate::schema::{Callers, Element, Method, Mode, Parameter, Range, Service, Type};
use crate::text::{Content, Scanner, Tag, mismatch};
use crate::{MAX_DEPTH, MAX_MESSAGE, REPLY};

/// The service that a discovery document tells of. Names and documentation are borrowed; the lists
/// take at most 16 times the text. Fails with the first thing that is wrong, its line and column,
/// and the path to it; what [`Service::check`] finds is told with its path at the beginning.
pub fn parse(text: &str) -> Result<Service<'_>, Error> {
    if text.len() > MAX_MESSAGE {
        return Err(Error::new(ErrorKind::TooLarge, MAX_MESSAGE));
    }
    let mut parse = Parse { scan: Scanner::new(text) };
    let service = parse.service().and_then(|service| {
        service.check()?;
        Ok(service)
    });
    service.map_err(|error| error.in_text(text))
}

/// The element with the cases of a type.
const CASES: &str = "cases";

struct Parse<'t> {
    scan: Scanner<'t>,
}

/// An element that is open: its name, its attributes, and whether it has content.
struct Opened<'t> {
    name: &'t str,
    doc: Cow<'t, str>,
    mode: Option<Mode>,
    callers: Option<Callers>,
    pure: bool,
    content: Content,
}

impl<'t> Parse<'t> {
    fn service(&mut self) -> Result<Service<'t>, Error> {
        self.scan.space();
        let at = self.scan.offset();
        let opened = self.open()?.ok_or_else(|| wrong("the service's element", at))?;
        self.no_mode(&opened, at)?;
        let methods = self.each(&opened, |parse, opened, at| parse.method(opened, at));
        let methods = methods.map_err(|error| error.within(opened.name))?;
        self.scan.finish()?;
        Ok(Service { name: opened.name.into(), doc: opened.doc, methods: methods.into() })
    }

    fn method(&mut self, opened: &Opened<'t>, at: usize) -> Result<Method<'t>, Error> {
        let mode = opened.mode.ok_or_else(|| wrong("the attribute `mode`", at))?;
        let parameters = self.named("parameters", 0)?;
        let reply = self.named(REPLY, 0)?;
        if opened.content == Content::Inside {
            self.close(opened.name)?;
        }
        Ok(Method {
            name: opened.name.into(),
            doc: opened.doc.clone(),
            mode,
            callers: opened.callers.unwrap_or_default(),
            pure: opened.pure,
            parameters: parameters.into(),
            reply: reply.into(),
        })
    }

    /// The parameters within an element of this name, which has nothing else.
    fn named(&mut self, name: &'static str, depth: usize) -> Result<Vec<Parameter<'t>>, Error> {
        self.scan.space();
        let at = self.scan.offset();
        let opened = match self.open()? {
            Some(opened) if opened.name == name => opened,
            Some(opened) => return Err(mismatch(name, opened.name, at)),
            None => return Err(missing(name, at)),
        };
        self.no_mode(&opened, at)?;
        self.each(&opened, |parse, opened, at| {
            parse.no_mode(opened, at)?;
            if name == CASES && opened.content == Content::Empty {
                let doc = opened.doc.clone();
                return Ok(Parameter { doc, ..Parameter::plain(opened.name, Type::NOTHING) });
            }
            let parameter = parse.parameter(opened, depth)?;
            parse.close(opened.name)?;
            Ok(parameter)
        })
    }

    /// What stands in an element, each by `take`, which takes the tag that closes it, too.
    fn each<T>(
        &mut self,
        within: &Opened<'t>,
        mut take: impl FnMut(&mut Self, &Opened<'t>, usize) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut items = Vec::new();
        if within.content == Content::Empty {
            return Ok(items);
        }
        loop {
            self.scan.space();
            let at = self.scan.offset();
            let Some(opened) = self.open()? else {
                self.close(within.name)?;
                return Ok(items);
            };
            let item = take(self, &opened, at);
            items.push(item.map_err(|error| error.within(opened.name))?);
        }
    }

    fn parameter(&mut self, opened: &Opened<'t>, depth: usize) -> Result<Parameter<'t>, Error> {
        let ty = self.ty(depth)?;
        let size = self.optional("size")?;
        let encoded = self.truth("encoded")?;
        let encrypted = self.truth("encrypted")?;
        let range = match self.optional("least")? {
            Some((least, at)) => {
                let (most, most_at) = self.leaf("most")?;
                Some(Range { least: number(least, at)?, most: number(most, most_at)? })
            }
            None => None,
        };
        let (name, doc) = (opened.name.into(), opened.doc.clone());
        let parameter = Parameter { name, doc, ty, range, encoded, encrypted };
        let (said, at) = match size {
            Some((word, at)) => (Some(number(word, at)?), at),
            None => (None, self.scan.offset()),
        };
        if said != parameter.size().map(i128::from) {
            return Err(Error::new(ErrorKind::Schema { what: "a size is not its type's" }, at));
        }
        Ok(parameter)
    }

    fn ty(&mut self, depth: usize) -> Result<Type<'t>, Error> {
        let (word, at) = self.leaf("type")?;
        let nests = matches!(word, "list" | "record" | "one_of");
        if nests && depth == MAX_DEPTH {
            return Err(Error::new(ErrorKind::TooDeep, at));
        }
        Ok(match word {
            "list" => {
                if !self.opens("element")? {
                    return Err(missing("element", self.scan.offset()));
                }
                let element = self.ty(depth + 1)?;
                self.close("element")?;
                Type::List(Element::Owned(Box::new(element)))
            }
            "record" => Type::Record(self.named("fields", depth + 1)?.into()),
            "one_of" => Type::OneOf(self.named(CASES, depth + 1)?.into()),
            _ => {
                let found = || ErrorKind::WrongType { expected: "a type", found: excerpt(word) };
                simple(word).ok_or_else(|| Error::new(found(), at))?
            }
        })
    }

    /// Opens whatever element comes next; none, if one is closed instead, which is not taken.
    fn open(&mut self) -> Result<Option<Opened<'t>>, Error> {
        let before = self.scan.clone();
        let Tag::Open(name) = self.scan.tag()? else {
            self.scan = before;
            return Ok(None);
        };
        let (mut doc, mut mode, mut callers, mut pure) = (None, None, None, false);
        loop {
            let at = self.scan.offset();
            let Some((attribute, value)) = self.scan.attribute()? else { break };
            match attribute {
                "doc" if doc.is_none() => doc = Some(value),
                "mode" if mode.is_none() => {
                    let modes = [Mode::Kernel, Mode::User];
                    mode = modes.into_iter().find(|mode| mode.name() == value);
                    let found = || excerpt(&value);
                    let kind = || ErrorKind::WrongType { expected: "a mode", found: found() };
                    mode.ok_or_else(|| Error::new(kind(), at))?;
                }
                "pure" if !pure && value == "true" => pure = true,
                "callers" if callers.is_none() => match Callers::parse(&value) {
                    Ok(known) => callers = Some(known),
                    Err(name) => {
                        let (expected, found) = ("callers", excerpt(name));
                        return Err(Error::new(ErrorKind::WrongType { expected, found }, at));
                    }
                },
                "doc" | "mode" | "callers" => {
                    let name = alloc::format!("@{attribute}");
                    return Err(Error::new(ErrorKind::DuplicateParameter { name }, at));
                }
                _ => return Err(unknown(attribute, at)),
            }
        }
        let content = self.scan.end_of_tag()?;
        let doc = doc.unwrap_or_default();
        Ok(Some(Opened { name, doc, mode, callers, pure, content }))
    }

    fn no_mode(&self, opened: &Opened<'_>, at: usize) -> Result<(), Error> {
        let of_methods = [
            ("mode", opened.mode.is_some()),
            ("callers", opened.callers.is_some()),
            ("pure", opened.pure),
        ];
        match of_methods.iter().find(|(_, is_there)| *is_there) {
            Some((name, _)) => Err(unknown(name, at)),
            None => Ok(()),
        }
    }

    /// Opens the element `name` if it comes next. It has neither attributes nor is it empty.
    fn opens(&mut self, name: &str) -> Result<bool, Error> {
        self.scan.space();
        if self.scan.opens(name) {
            return Ok(true);
        }
        let before = self.scan.clone();
        match self.scan.tag()? {
            Tag::Open(found) if found == name => {
                let at = self.scan.offset();
                match (self.scan.attribute()?, self.scan.end_of_tag()) {
                    (Some((attribute, _)), _) => Err(unknown(attribute, at)),
                    (None, Ok(Content::Inside)) => Ok(true),
                    (None, Ok(Content::Empty)) => Err(wrong("a value", at)),
                    (None, Err(error)) => Err(error),
                }
            }
            _ => {
                self.scan = before;
                Ok(false)
            }
        }
    }

    fn close(&mut self, name: &str) -> Result<(), Error> {
        self.scan.space();
        self.scan.closes(name)
    }

    /// The word in the element `name`, if that comes next, and where it begins.
    fn optional(&mut self, name: &'static str) -> Result<Option<(&'t str, usize)>, Error> {
        if !self.opens(name)? {
            return Ok(None);
        }
        let word = self.scan.word()?;
        self.close(name)?;
        Ok(Some(word))
    }

    fn leaf(&mut self, name: &'static str) -> Result<(&'t str, usize), Error> {
        self.optional(name)?.ok_or_else(|| missing(name, self.scan.offset()))
    }

    fn truth(&mut self, name: &'static str) -> Result<bool, Error> {
        match self.leaf(name)? {
            ("true", _) => Ok(true),
            ("false", _) => Ok(false),
            (word, at) => {
                let kind = ErrorKind::WrongType { expected: "bool", found: excerpt(word) };
                Err(Error::new(kind, at))
            }
        }
    }
}

fn simple<'t>(name: &str) -> Option<Type<'t>> {
    Type::SIMPLE.into_iter().find(|ty| ty.name() == name)
}

fn number(word: &str, at: usize) -> Result<i128, Error> {
    let kind = || ErrorKind::WrongType { expected: "an integer", found: excerpt(word) };
    word.parse().map_err(|_| Error::new(kind(), at))
}

fn wrong(expected: &'static str, at: usize) -> Error {
    Error::new(ErrorKind::Syntax { expected }, at)
}

fn missing(name: &str, at: usize) -> Error {
    Error::new(ErrorKind::MissingParameter { name: name.into() }, at)
}

fn unknown(attribute: &str, at: usize) -> Error {
    let name = alloc::format!("@{}", excerpt(attribute));
    Error::new(ErrorKind::UnknownParameter { name, known: String::new() }, at)
}
