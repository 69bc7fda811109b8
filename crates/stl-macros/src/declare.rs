//! What stands in `#[service(…)]`, understood: the instance, and its type (Dhara, III.C).

use proc_macro2::{Span, TokenStream};
use quote::format_ident;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Error, ExprRange, Ident, Lit, LitInt, LitStr, Path, Result, Token, parenthesized, token,
};

use crate::check;
use crate::method::bounds;

/// What interfaces say, and what implementations do.
const SAID: [&str; 4] = ["subsystem", "capability", "layer", "type"];
const DONE: [&str; 6] = ["working", "on", "user", "keywords", "attributes", "policy"];
const KNOWN_OF_TYPES: &str = "name, extends, profile, attributes, parameters, state, default";

/// The attribute that is a place in the order of a type's instances.
const PRIORITY: &str = "global_priority";

/// At what `#[service(…)]` stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A trait: what a service says.
    Interface,
    /// The `impl` block of such a trait's half: who does it.
    Implementation,
    /// An `impl` block that is both.
    Both,
}

/// What a service says.
#[derive(Clone)]
pub struct Says {
    pub subsystem: String,
    pub capability: String,
    pub layer: Ident,
    pub ty: Kind,
}

/// What stands there.
pub struct Declared {
    pub says: Says,
    pub working: String,
    pub on: Ident,
    /// The struct with the user half's state, if it is another one.
    pub user: Option<Ident>,
    pub keywords: Vec<(String, u16)>,
    pub attributes: Vec<Value>,
    /// What decides on a core, if it is a scheduling policy: a type with a default.
    pub policy: Option<Path>,
}

/// Of which type a service is.
#[derive(Clone)]
pub enum Kind {
    /// Of one that it declares.
    Own(OwnType),
    /// Of one that another service has declared.
    Other(Path),
}

/// What a service says of the type that it declares.
#[derive(Clone, Default)]
pub struct OwnType {
    /// Its name, if it is not the service's.
    pub name: Option<String>,
    /// The type that it extends.
    pub extends: Option<Path>,
    /// The methods that every instance has, if not all.
    pub profile: Option<Vec<Ident>>,
    pub attributes: Vec<Rule>,
    pub parameters: Vec<Rule>,
    pub state: Vec<Value>,
    pub default: DefaultInstance,
}

/// Which instance serves what matches none.
#[derive(Clone, Default)]
pub enum DefaultInstance {
    /// The service that declares the type.
    #[default]
    This,
    /// Another one.
    Other(String),
    Nobody,
}

/// A named value.
#[derive(Clone)]
pub struct Value {
    pub name: String,
    pub value: Literal,
}

/// A value as it was written.
#[derive(Clone)]
pub enum Literal {
    Int(i64),
    Bool(bool),
    Text(String),
}

/// What a value of this name must be.
#[derive(Clone)]
pub struct Rule {
    pub name: String,
    pub kind: ValueKind,
    pub range: Option<(i128, i128)>,
    pub required: bool,
}

/// The type of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    Int,
    Bool,
    Text,
}

impl Declared {
    /// What stands in the attribute of a service; what is wrong about it as a whole is told at
    /// `service`.
    pub fn understand(attributes: TokenStream, service: Span, form: Form) -> Result<Declared> {
        let says = Says {
            subsystem: String::new(),
            capability: String::new(),
            layer: format_ident!("High"),
            ty: Kind::Own(OwnType::default()),
        };
        let mut declared = Declared {
            says,
            working: String::new(),
            on: format_ident!("every"),
            user: None,
            keywords: Vec::new(),
            attributes: Vec::new(),
            policy: None,
        };
        let mut seen = Seen::default();
        // What an instance of another's type does not say.
        let mut of_type = Vec::new();
        let each = |meta: ParseNestedMeta<'_>| {
            let key = seen.note(&meta.path)?;
            form.check(&key, &meta)?;
            if matches!(key.as_str(), "subsystem" | "capability" | "layer") {
                of_type.push(meta.path.span());
            }
            declared.read(&key, &meta)
        };
        syn::meta::parser(each).parse2(attributes)?;
        let Says { ty, subsystem, capability, .. } = &declared.says;
        match (ty, of_type.first()) {
            (Kind::Other(_), Some(span)) => {
                let why = "the type says its subsystem, its capability and its layer: leave it out";
                Err(Error::new(*span, why))
            }
            (Kind::Own(_), _)
                if form != Form::Implementation
                    && (subsystem.is_empty() || capability.is_empty()) =>
            {
                let why = "a service says its subsystem and its capability, or of which type it is";
                Err(Error::new(service, why))
            }
            _ => Ok(declared),
        }
    }

    fn read(&mut self, key: &str, meta: &ParseNestedMeta<'_>) -> Result<()> {
        match key {
            "subsystem" => self.says.subsystem = text(meta)?,
            "capability" => self.says.capability = text(meta)?,
            "working" => self.working = text(meta)?,
            "layer" => {
                let layer: Ident = meta.value()?.parse()?;
                self.says.layer = match layer.to_string().as_str() {
                    "high" => format_ident!("High"),
                    "low" => format_ident!("Low"),
                    "micro" => format_ident!("Micro"),
                    _ => return Err(Error::new(layer.span(), "layers: high, low, micro")),
                };
            }
            "on" => self.on = meta.value()?.parse()?,
            "policy" => self.policy = Some(meta.value()?.call(Path::parse_mod_style)?),
            "user" => self.user = Some(meta.value()?.parse()?),
            "keywords" => self.keywords = keywords(meta)?,
            "attributes" => {
                self.attributes = values(meta)?;
                let bad = |it: &&Value| it.name == PRIORITY && !matches!(it.value, Literal::Int(_));
                if self.attributes.iter().any(|it| bad(&it)) {
                    return Err(meta.error(format!("{PRIORITY} is a whole number")));
                }
            }
            "type" if meta.input.peek(token::Paren) => {
                let mut own = OwnType::default();
                let mut seen = Seen::default();
                meta.parse_nested_meta(|meta| own.read(&seen.note(&meta.path)?, &meta))?;
                self.says.ty = Kind::Own(own);
            }
            "type" => {
                self.says.ty = Kind::Other(type_path(meta, "type")?);
            }
            // Those that are known were looked for before.
            _ => {}
        }
        Ok(())
    }
}

impl Form {
    /// Whether something may be said here.
    fn check(self, key: &str, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let (said, done) = (SAID.join(", "), DONE.join(", "));
        let why = match self {
            Form::Interface if DONE.contains(&key) => {
                format!("an implementation says its `{key}`; known here: {said}")
            }
            Form::Implementation if SAID.contains(&key) => {
                format!("the interface says its `{key}`; known here: {done}")
            }
            _ if SAID.contains(&key) || DONE.contains(&key) => return Ok(()),
            Form::Interface => format!("known here: {said}"),
            Form::Implementation => format!("known here: {done}"),
            Form::Both => format!("known here: {said}, {done}"),
        };
        Err(meta.error(why))
    }
}

impl OwnType {
    /// Whether it is the type that a service has of which nothing is said.
    pub fn says_nothing(&self) -> bool {
        let OwnType { name, extends, profile, attributes, parameters, state, default } = self;
        let lists = attributes.is_empty() && parameters.is_empty() && state.is_empty();
        let names = name.is_none() && extends.is_none() && profile.is_none();
        lists && names && matches!(default, DefaultInstance::This)
    }

    fn read(&mut self, key: &str, meta: &ParseNestedMeta<'_>) -> Result<()> {
        match key {
            "name" => self.name = Some(text(meta)?),
            "extends" => self.extends = Some(type_path(meta, "extends")?),
            "profile" => self.profile = Some(listed(meta, Ident::parse)?),
            "attributes" => self.attributes = rules(meta)?,
            "parameters" => self.parameters = rules(meta)?,
            "state" => self.state = values(meta)?,
            "default" => {
                let value = meta.value()?;
                self.default = if value.peek(LitStr) {
                    DefaultInstance::Other(named(value)?)
                } else {
                    let word: Ident = value.parse()?;
                    if word != "none" {
                        let why = "an instance's name in quotes, or none";
                        return Err(Error::new(word.span(), why));
                    }
                    DefaultInstance::Nobody
                };
            }
            _ => return Err(meta.error(format!("known of a type: {KNOWN_OF_TYPES}"))),
        }
        Ok(())
    }
}

/// What has been said already.
#[derive(Default)]
struct Seen(Vec<String>);

impl Seen {
    /// The name, said for the first time.
    fn note(&mut self, path: &Path) -> Result<String> {
        let name = path.require_ident()?.to_string();
        self.note_name(&name, path.span())?;
        Ok(name)
    }

    fn note_name(&mut self, name: &str, span: Span) -> Result<()> {
        if self.0.iter().any(|seen| seen == name) {
            return Err(Error::new(span, format!("`{name}` stands here twice: once is enough")));
        }
        self.0.push(name.into());
        Ok(())
    }
}

/// The path of a type.
fn type_path(meta: &ParseNestedMeta<'_>, what: &str) -> Result<Path> {
    let value = meta.value()?;
    if value.peek(LitStr) {
        return Err(value.error(format!(
            "a type by its path, as in `{what} = crate::eviction::TYPE`: so the compiler knows \
             what its services have"
        )));
    }
    value.call(Path::parse_mod_style)
}

fn text(meta: &ParseNestedMeta<'_>) -> Result<String> {
    named(meta.value()?)
}

/// A text in quotes with something in it.
fn named(input: ParseStream<'_>) -> Result<String> {
    let Ok(text) = input.parse::<LitStr>() else {
        return Err(input.error("a text in quotes"));
    };
    match text.value() {
        empty if empty.is_empty() => Err(Error::new(text.span(), "an empty text says nothing")),
        text => Ok(text),
    }
}

/// What stands in parentheses, separated by commas.
fn listed<T>(meta: &ParseNestedMeta<'_>, each: fn(ParseStream<'_>) -> Result<T>) -> Result<Vec<T>> {
    let content;
    parenthesized!(content in meta.input);
    Ok(Punctuated::<T, Token![,]>::parse_terminated_with(&content, each)?.into_iter().collect())
}

/// The same for what has names, each of them once.
fn each_once<T>(
    meta: &ParseNestedMeta<'_>,
    each: fn(ParseStream<'_>) -> Result<(T, String)>,
) -> Result<Vec<T>> {
    let content;
    parenthesized!(content in meta.input);
    let mut seen = Seen::default();
    let mut all = Vec::new();
    while !content.is_empty() {
        let span = content.span();
        let (value, name) = each(&content)?;
        seen.note_name(&name, span)?;
        all.push(value);
        if !content.is_empty() {
            content.parse::<Token![,]>()?;
        }
    }
    Ok(all)
}

/// `word = 3`, where the word may stand in quotes.
fn keywords(meta: &ParseNestedMeta<'_>) -> Result<Vec<(String, u16)>> {
    each_once(meta, |input| {
        let word = if input.peek(LitStr) { named(input)? } else { name(input)? };
        input.parse::<Token![=]>()?;
        let weight: LitInt = input.parse()?;
        match weight.base10_parse::<u16>() {
            Ok(0) | Err(_) => {
                let why = format!("a weight is 1 to {}: what a match counts", u16::MAX);
                Err(Error::new(weight.span(), why))
            }
            Ok(weight) => Ok(((word.clone(), weight), word)),
        }
    })
}

/// `name = value`, where the value is a whole number, true, false, or a text.
fn values(meta: &ParseNestedMeta<'_>) -> Result<Vec<Value>> {
    each_once(meta, |input| {
        let name = name(input)?;
        input.parse::<Token![=]>()?;
        Ok((Value { name: name.clone(), value: literal(input)? }, name))
    })
}

/// A value.
fn literal(input: ParseStream<'_>) -> Result<Literal> {
    let span = input.span();
    let minus = input.parse::<Option<Token![-]>>()?.is_some();
    let value = match input.parse::<Lit>() {
        Ok(Lit::Int(number)) => {
            let number = number.base10_parse::<i128>()?;
            i64::try_from(if minus { -number } else { number }).ok().map(Literal::Int)
        }
        Ok(Lit::Bool(value)) if !minus => Some(Literal::Bool(value.value)),
        Ok(Lit::Str(text)) if !minus => Some(Literal::Text(text.value())),
        _ => None,
    };
    let wrong = "a value is a whole number of 64 bits, true, false, or a text in quotes";
    value.ok_or_else(|| Error::new(span, wrong))
}

/// `name: int in 0..=9`, or `optional name: text`: what a value of this name must be.
fn rules(meta: &ParseNestedMeta<'_>) -> Result<Vec<Rule>> {
    each_once(meta, |input| {
        let optional = input.peek(Ident) && input.peek2(Ident::peek_any) && {
            let word: Ident = input.parse()?;
            if word != "optional" {
                let why = "optional, or nothing, stands before the name";
                return Err(Error::new(word.span(), why));
            }
            true
        };
        let name = name(input)?;
        input.parse::<Token![:]>()?;
        let word: Ident = input.call(Ident::parse_any)?;
        let kind = match word.to_string().as_str() {
            "int" => ValueKind::Int,
            "bool" => ValueKind::Bool,
            "text" => ValueKind::Text,
            _ => return Err(Error::new(word.span(), "kinds of values: int, bool, text")),
        };
        let range = match input.parse::<Option<Token![in]>>()? {
            Some(within) if kind == ValueKind::Bool => {
                return Err(Error::new(within.span(), "true and false have no range"));
            }
            Some(_) => Some(bounds(&input.parse::<ExprRange>()?)?),
            None => None,
        };
        Ok((Rule { name: name.clone(), kind, range, required: !optional }, name))
    })
}

/// A name, which may be a word of the language.
fn name(input: ParseStream<'_>) -> Result<String> {
    let name = input.call(Ident::parse_any)?;
    check::parameter(&name)?;
    Ok(check::plain_name(&name))
}

#[cfg(test)]
mod tests;
