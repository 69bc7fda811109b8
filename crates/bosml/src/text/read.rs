//! From text to the binary form, in one pass: the schema says which tag comes next, and if it is
//! that one, nothing is searched.

use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::MAX_MESSAGE;
use crate::binary::Writer;
use crate::error::{Error, ErrorKind, excerpt, names};
use crate::schema::{Parameter, Range, Type};
use crate::typed::Encode;
use crate::value::{check_range, out_of_range, put_integer, wrong_type};

use super::ITEM;
use super::scan::{Content, Scanner, Tag, mismatch};

/// The binary form of a document whose element is `element` and has a value for each of
/// `parameters`, in any order. It is never longer than the text, and takes as much memory; twice
/// that and two words a value while values are put in order. Fails with the first thing that is
/// wrong, its line and column, and the path to its parameter.
pub fn text_to_binary(
    parameters: &[Parameter<'_>],
    element: &str,
    text: &str,
) -> Result<Vec<u8>, Error> {
    if text.len() > MAX_MESSAGE {
        return Err(Error::new(ErrorKind::TooLarge, MAX_MESSAGE));
    }
    let mut read = Read { scan: Scanner::new(text), out: Writer::with_capacity(text.len()) };
    read.document(parameters, element).map_err(|error| error.in_text(text))?;
    read.out.into_bytes()
}

struct Read<'t> {
    scan: Scanner<'t>,
    out: Writer,
}

impl Read<'_> {
    fn document(&mut self, parameters: &[Parameter<'_>], element: &str) -> Result<(), Error> {
        self.scan.space();
        let at = self.scan.offset();
        let content = match self.scan.opens(element) {
            true => Content::Inside,
            false => match self.scan.tag()? {
                Tag::Open(found) if found == element => self.content(element)?,
                Tag::Open(found) | Tag::Close(found) => return Err(mismatch(element, found, at)),
            },
        };
        self.fields(parameters, element, content).map_err(|error| error.within(element))?;
        self.scan.finish()
    }

    /// The rest of a tag that opens an element. Messages have no attributes.
    fn content(&mut self, element: &str) -> Result<Content, Error> {
        let at = self.scan.offset();
        match self.scan.attribute() {
            Ok(Some((name, _))) => {
                let name = alloc::format!("@{}", excerpt(name));
                let kind = ErrorKind::UnknownParameter { name, known: String::new() };
                Err(Error::new(kind, at + 1).within(element))
            }
            Ok(None) => self.scan.end_of_tag(),
            Err(error) => Err(error.within(element)),
        }
    }

    /// The values of a record, up to the tag that closes it. Those in the order of the schema are
    /// put where they belong at once; from the first that is not, all are put in order at the end.
    fn fields(
        &mut self,
        fields: &[Parameter<'_>],
        element: &str,
        content: Content,
    ) -> Result<(), Error> {
        let mut next = 0;
        // What comes out of order: which field, and where it begins in the binary form.
        let mut late: Vec<(usize, usize)> = Vec::new();
        if content == Content::Empty {
            return self.sort(fields, next, late, self.scan.offset());
        }
        let end = loop {
            self.scan.space();
            let at = self.scan.offset();
            if late.is_empty()
                && let Some(field) = fields.get(next)
                && self.scan.opens(&field.name)
            {
                self.field(field, Content::Inside)?;
                next += 1;
                continue;
            }
            let name = match self.scan.tag()? {
                Tag::Open(name) => name,
                Tag::Close(name) if name == element => break at,
                Tag::Close(name) => return Err(mismatch(element, name, at)),
            };
            let index = fields.iter().position(|field| field.name == name);
            let index = index.ok_or_else(|| unknown(fields, name, at))?;
            if index < next || late.iter().any(|(other, _)| *other == index) {
                let kind = ErrorKind::DuplicateParameter { name: name.into() };
                return Err(Error::new(kind, at));
            }
            if index == next && late.is_empty() {
                next += 1;
            } else {
                late.push((index, self.out.len()));
            }
            let content = self.content(name)?;
            self.field(&fields[index], content)?;
        };
        self.sort(fields, next, late, end)
    }

    /// The values from `next` on are there; puts them in order.
    fn sort(
        &mut self,
        fields: &[Parameter<'_>],
        next: usize,
        late: Vec<(usize, usize)>,
        at: usize,
    ) -> Result<(), Error> {
        let there = |index: &usize| late.iter().any(|(other, _)| other == index);
        if let Some(index) = (next..fields.len()).find(|index| !there(index)) {
            let kind = ErrorKind::MissingParameter { name: fields[index].name.as_ref().into() };
            return Err(Error::new(kind, at));
        }
        let Some((_, start)) = late.first().copied() else { return Ok(()) };
        let ends = late[1..].iter().map(|(_, from)| *from).chain([self.out.len()]);
        let mut parts: Vec<_> =
            late.iter().zip(ends).map(|((index, from), to)| (*index, *from, to)).collect();
        nile_order::sort(&mut parts);
        self.out.reorder(start, parts.into_iter().map(|(_, from, to)| (from, to)));
        Ok(())
    }

    #[inline]
    fn field(&mut self, field: &Parameter<'_>, content: Content) -> Result<(), Error> {
        self.value(&field.ty, field.range, &field.name, content)
            .map_err(|error| error.within(&field.name))
    }

    /// A value in the element `element`, with the tag that closes it.
    fn value(
        &mut self,
        ty: &Type<'_>,
        range: Option<Range>,
        element: &str,
        content: Content,
    ) -> Result<(), Error> {
        match ty {
            Type::Record(fields) => return self.fields(fields, element, content),
            Type::List(items) => return self.items(items.get(), range, element, content),
            Type::OneOf(cases) => return self.one_of(cases, element, content),
            Type::String => {
                let (at, scan) = (self.scan.offset(), &mut self.scan);
                let length = self.out.measured(|out| match content {
                    Content::Inside => scan.string(out),
                    Content::Empty => Ok(()),
                })?;
                check_range(range, length as i128, at)?;
            }
            _ => {
                let (word, at) = match content {
                    Content::Inside => self.scan.word()?,
                    Content::Empty => ("", self.scan.offset()),
                };
                self.scalar(ty, range, word, at)?;
            }
        }
        match content {
            Content::Inside => self.scan.closes(element),
            Content::Empty => Ok(()),
        }
    }

    /// One of the cases, with the tag that closes `element`: the name of one without a value, or
    /// an element of its name with its value.
    fn one_of(
        &mut self,
        cases: &[Parameter<'_>],
        element: &str,
        content: Content,
    ) -> Result<(), Error> {
        let (word, at) = match content {
            Content::Inside => self.scan.word()?,
            Content::Empty => ("", self.scan.offset()),
        };
        let number = |name: &str| {
            let number = cases.iter().position(|case| case.name == name);
            number.ok_or_else(|| Error::unknown_case(name, cases, at))
        };
        if content == Content::Empty || !word.is_empty() {
            let number = number(word)?;
            if !cases[number].ty.is_nothing() {
                let expected = "the case's element, with its value";
                return Err(Error::new(ErrorKind::Syntax { expected }, at));
            }
            self.out.put(&[number as u8]);
        } else {
            let Tag::Open(name) = self.scan.tag()? else { return number("").map(|_| ()) };
            let number = number(name)?;
            self.out.put(&[number as u8]);
            let content = self.content(name)?;
            self.field(&cases[number], content)?;
            self.scan.space();
        }
        self.scan.closes(element)
    }

    /// The elements of a list, up to the tag that closes it.
    fn items(
        &mut self,
        item: &Type<'_>,
        range: Option<Range>,
        element: &str,
        content: Content,
    ) -> Result<(), Error> {
        let (start, at) = (self.out.open(), self.scan.offset());
        let mut count = 0;
        if content == Content::Inside {
            while let Some(content) = self.item(element)? {
                self.value(item, None, ITEM, content).map_err(|error| error.within_item(count))?;
                count += 1;
            }
        }
        check_range(range, count as i128, at)?;
        self.out.close_list(start, count);
        Ok(())
    }

    /// Opens the next element of the list `element`, or closes the list.
    #[inline]
    fn item(&mut self, element: &str) -> Result<Option<Content>, Error> {
        self.scan.space();
        if self.scan.opens(ITEM) {
            return Ok(Some(Content::Inside));
        }
        let at = self.scan.offset();
        match self.scan.tag()? {
            Tag::Open(ITEM) => self.content(ITEM).map(Some),
            Tag::Close(name) if name == element => Ok(None),
            Tag::Open(name) | Tag::Close(name) => Err(mismatch(ITEM, name, at)),
        }
    }

    /// A value that is one word.
    #[inline]
    fn scalar(
        &mut self,
        ty: &Type<'_>,
        range: Option<Range>,
        word: &str,
        at: usize,
    ) -> Result<(), Error> {
        let wrong = || wrong_type(ty, word, at);
        match ty {
            Type::Bool => match word {
                "true" => true.encode(&mut self.out),
                "false" => false.encode(&mut self.out),
                _ => return Err(wrong()),
            },
            Type::Float64 => word.parse::<f64>().map_err(|_| wrong())?.encode(&mut self.out),
            Type::Core => {
                word.parse::<crate::Core>().map_err(|_| wrong())?.encode(&mut self.out);
            }
            Type::Buffer => {
                word.parse::<crate::Buffer>().map_err(|_| wrong())?.encode(&mut self.out);
            }
            Type::Bytes => {
                let length =
                    self.out.measured(|out| STANDARD.decode_vec(word, out).map_err(|_| wrong()))?;
                check_range(range, length as i128, at)?;
            }
            _ => {
                // Only integers are left; what is none has no limits.
                let limits = ty.limits().ok_or_else(wrong)?;
                let number = match integer(word).ok_or_else(wrong)? {
                    Some(number) if limits.contains(number) => number,
                    _ => return Err(out_of_range(range.unwrap_or(limits), word, at)),
                };
                check_range(range, number, at)?;
                put_integer(&mut self.out, ty, number)?;
            }
        }
        Ok(())
    }
}

#[cold]
fn unknown(fields: &[Parameter<'_>], name: &str, at: usize) -> Error {
    let kind = ErrorKind::UnknownParameter { name: excerpt(name), known: names(fields) };
    Error::new(kind, at)
}

/// A decimal integer; `Some(None)` if it is one and has more than 64 bits.
#[inline]
fn integer(word: &str) -> Option<Option<i128>> {
    let (negative, digits) = match word.as_bytes() {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut number = Some(0u64);
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.and_then(|it| it.checked_mul(10)?.checked_add(digit.into()));
    }
    let sign = if negative { -1 } else { 1 };
    Some(number.map(|number| sign * i128::from(number)))
}
