//! The fingerprint of a schema: whoever has a service's schema of another build can tell whether
//! the methods, which go by their numbers, are still the same ones.

use alloc::borrow::Cow;
use core::fmt;

use super::{Element, Method, Mode, Parameter, Service, Type};

/// FNV-1a (32 bits) of all of a schema that its callers rely on: names, modes, types, ranges and
/// how values are carried, in order; not its documentation. It finds what has changed by mistake,
/// not by design.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fingerprint(pub u32);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl Fingerprint {
    /// That of a service.
    pub const fn of(schema: &Service<'_>) -> Fingerprint {
        let methods = list(&schema.methods);
        let mut hash = name(START, text(&schema.name));
        let mut at = 0;
        while at < methods.len() {
            hash = method(hash, &methods[at]);
            at += 1;
        }
        Fingerprint(hash)
    }

    /// That of a type.
    pub const fn of_type(kind: &Type<'_>) -> Fingerprint {
        Fingerprint(ty(START, kind))
    }
}

/// Whether a service begins with the methods of `profile`: the same ones, by the same numbers, as
/// far as their fingerprints can tell. Where each runs does not count: packages have theirs in user
/// mode.
pub const fn begins_with(schema: &Service<'_>, profile: &Service<'_>) -> bool {
    let (methods, wanted) = (list(&schema.methods), list(&profile.methods));
    if methods.len() < wanted.len() {
        return false;
    }
    let mut at = 0;
    while at < wanted.len() {
        if signature(START, &methods[at]) != signature(START, &wanted[at]) {
            return false;
        }
        at += 1;
    }
    true
}

const START: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

const fn byte(hash: u32, byte: u8) -> u32 {
    (hash ^ byte as u32).wrapping_mul(PRIME)
}

const fn bytes(mut hash: u32, all: &[u8]) -> u32 {
    let mut at = 0;
    while at < all.len() {
        hash = byte(hash, all[at]);
        at += 1;
    }
    hash
}

/// A name, and its end: no byte of a name is zero.
const fn name(hash: u32, name: &str) -> u32 {
    byte(bytes(hash, name.as_bytes()), 0)
}

/// What is in a text.
#[expect(clippy::ptr_arg, reason = "nothing else dereferences a Cow in a constant")]
pub const fn text<'t>(text: &'t Cow<'_, str>) -> &'t str {
    match text {
        Cow::Borrowed(text) => text,
        Cow::Owned(text) => text.as_str(),
    }
}

/// What is in a list.
#[expect(clippy::ptr_arg, reason = "nothing else dereferences a Cow in a constant")]
pub const fn list<'l, T: Clone>(list: &'l Cow<'_, [T]>) -> &'l [T] {
    match list {
        Cow::Borrowed(list) => list,
        Cow::Owned(list) => list.as_slice(),
    }
}

const fn method(hash: u32, method: &Method<'_>) -> u32 {
    let mode = match method.mode {
        Mode::Kernel => b'k',
        Mode::User => b'u',
    };
    signature(byte(hash, mode), method)
}

/// What a method is but where it runs.
const fn signature(hash: u32, method: &Method<'_>) -> u32 {
    let mut hash = name(hash, text(&method.name));
    if method.pure {
        hash = byte(hash, b'p');
    }
    values(values(hash, list(&method.parameters)), list(&method.reply))
}

/// Named values, and their end.
const fn values(mut hash: u32, values: &[Parameter<'_>]) -> u32 {
    let mut at = 0;
    while at < values.len() {
        let Parameter { ty: kind, range, encoded, encrypted, .. } = &values[at];
        hash = ty(name(hash, text(&values[at].name)), kind);
        if let Some(range) = range {
            hash = bytes(byte(hash, b'r'), &range.least.to_le_bytes());
            hash = bytes(hash, &range.most.to_le_bytes());
        }
        hash = byte(hash, *encoded as u8 | (*encrypted as u8) << 1);
        at += 1;
    }
    byte(hash, b';')
}

const fn ty(hash: u32, kind: &Type<'_>) -> u32 {
    let letter = match kind {
        Type::Uint8 => b'a',
        Type::Uint16 => b'b',
        Type::Uint32 => b'c',
        Type::Uint64 => b'd',
        Type::Int8 => b'e',
        Type::Int16 => b'f',
        Type::Int32 => b'g',
        Type::Int64 => b'h',
        Type::Bool => b'i',
        Type::Float64 => b'j',
        Type::String => b'k',
        Type::Bytes => b'l',
        Type::Core => b'm',
        Type::Buffer => b'n',
        Type::List(Element::Static(element)) => return ty(byte(hash, b'['), element),
        Type::List(Element::Owned(element)) => return ty(byte(hash, b'['), element),
        Type::Record(fields) => return values(byte(hash, b'{'), list(fields)),
        Type::OneOf(cases) => return values(byte(hash, b'|'), list(cases)),
    };
    byte(hash, letter)
}

#[cfg(test)]
mod tests {
    use super::super::Callers;
    use super::*;
    use crate::discovery;
    use crate::schema::Range;
    use alloc::vec;
    use alloc::vec::Vec;

    const fn value(
        name: &'static str,
        ty: Type<'static>,
        range: Option<Range>,
    ) -> Parameter<'static> {
        Parameter {
            name: Cow::Borrowed(name),
            doc: Cow::Borrowed("a doc"),
            ty,
            range,
            encoded: true,
            encrypted: false,
        }
    }

    static FIELDS: [Parameter<'static>; 2] = [
        value("a", Type::Uint8, None),
        value("b", Type::List(Element::Static(&Type::String)), None),
    ];
    static TAKES: [Parameter<'static>; 3] = [
        value("x", Type::Int32, Some(Range { least: -1, most: 7 })),
        value("y", Type::Record(Cow::Borrowed(&FIELDS)), None),
        value("z", Type::OneOf(Cow::Borrowed(&FIELDS)), None),
    ];
    static METHODS: [Method<'static>; 2] =
        [method_of("first", Mode::Kernel), method_of("second", Mode::User)];
    static SCHEMA: Service<'static> = Service {
        name: Cow::Borrowed("tested"),
        doc: Cow::Borrowed("A doc."),
        methods: Cow::Borrowed(&METHODS),
    };
    /// Known to the compiler.
    static CONSTANT: Fingerprint = Fingerprint::of(&SCHEMA);

    const fn method_of(name: &'static str, mode: Mode) -> Method<'static> {
        Method {
            name: Cow::Borrowed(name),
            doc: Cow::Borrowed(""),
            mode,
            callers: Callers::NONE,
            pure: false,
            parameters: Cow::Borrowed(&TAKES),
            reply: Cow::Borrowed(&FIELDS),
        }
    }

    #[test]
    fn a_parsed_schema_has_the_fingerprint_of_the_constant_one() {
        let document = discovery::to_text(&SCHEMA);
        let parsed = discovery::parse(&document).unwrap().into_owned();
        assert_eq!(Fingerprint::of(&parsed), CONSTANT);
        assert!(begins_with(&parsed, &SCHEMA) && begins_with(&SCHEMA, &parsed));
    }

    type Change = fn(&mut Service<'static>);

    #[test]
    fn what_callers_rely_on_changes_it_and_documentation_does_not() {
        let changed = |change: Change| {
            let mut schema = SCHEMA.clone().into_owned();
            change(&mut schema);
            schema
        };
        let told = changed(|it| {
            it.doc = "other".into();
            it.methods.to_mut()[0].doc = "other".into();
            it.methods.to_mut()[0].parameters.to_mut()[0].doc = "other".into();
        });
        assert_eq!(Fingerprint::of(&told), CONSTANT);
        let renamed = changed(|it| it.name = "teste".into());
        assert!(Fingerprint::of(&renamed) != CONSTANT && begins_with(&renamed, &SCHEMA));
        // Where a method runs is its callers' business, and not its type's.
        let moved = changed(|it| it.methods.to_mut()[1].mode = Mode::Kernel);
        assert!(Fingerprint::of(&moved) != CONSTANT && begins_with(&moved, &SCHEMA));
        let changes: [Change; 11] = [
            |it| it.methods.to_mut()[1].name = "third".into(),
            |it| it.methods.to_mut()[1].pure = true,
            |it| it.methods.to_mut().swap(0, 1),
            |it| it.methods.to_mut()[0].parameters.to_mut().swap(0, 1),
            |it| it.methods.to_mut()[0].parameters.to_mut()[0].ty = Type::Uint32,
            |it| it.methods.to_mut()[0].parameters.to_mut()[0].range = None,
            |it| it.methods.to_mut()[0].reply.to_mut()[1].encrypted = true,
            |it| it.methods.to_mut()[0].parameters.to_mut()[2].ty = Type::OneOf(vec![].into()),
            |it| {
                // A record of the fields that were cases.
                let fields = Cow::Borrowed(&FIELDS[..]);
                it.methods.to_mut()[0].parameters.to_mut()[2].ty = Type::Record(fields);
            },
            |it| {
                // The border between what it takes and what it gives.
                let Method { parameters, reply, .. } = &mut it.methods.to_mut()[1];
                reply.to_mut().insert(0, parameters.to_mut().remove(1));
            },
            |it| drop(it.methods.to_mut().pop()),
        ];
        let all: Vec<_> = changes.into_iter().map(changed).collect();
        for (at, schema) in all.iter().enumerate() {
            assert_ne!(Fingerprint::of(schema), CONSTANT, "change {at}");
            assert!(!begins_with(schema, &SCHEMA), "change {at}");
        }
        assert!(begins_with(&SCHEMA, all.last().unwrap()), "it has one method more");
    }

    #[test]
    fn it_is_fnv() {
        assert_eq!(bytes(START, b"foobar"), 0xbf9c_f968);
        assert_eq!(alloc::format!("{}", Fingerprint(0xab)), "000000ab");
    }
}
