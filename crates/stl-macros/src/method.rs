//! A method as it was written, understood: where it runs, what it takes and gives.

use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Error, Expr, ExprLit, ExprRange, FnArg, Ident, Lifetime, Lit, LitStr, Meta, Pat,
    RangeLimits, Result, ReturnType, Signature, Token, Type, TypePath, parse_quote,
};

use crate::check;

/// Where a method runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Kernel,
    User,
}

/// A method.
#[derive(Clone)]
pub struct Method {
    pub name: Ident,
    pub number: u16,
    pub doc: String,
    pub mode: Mode,
    pub pure: bool,
    pub is_async: bool,
    /// How it names the caller that it asks for.
    pub caller: Option<Type>,
    pub parameters: Vec<Parameter>,
    /// What it gives, as it was written.
    pub output: Type,
    /// The same without `CallResult`.
    pub reply: Type,
    pub reply_name: String,
    /// Who may call it besides the own node's kernels.
    pub callers: Vec<Ident>,
    /// What the reply means, if that is not its name.
    pub reply_means: Option<String>,
    pub failure: Failure,
}

/// How a method says that it has failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It cannot.
    Never,
    /// It gives a `CallResult`.
    CallError,
    /// It gives a `Result` with what becomes a `CallError`.
    Other,
}

/// A parameter.
#[derive(Clone)]
pub struct Parameter {
    pub name: Ident,
    /// With every lifetime that was left out called `'a`.
    pub ty: Type,
    pub range: Option<(i128, i128)>,
    pub encrypted: bool,
    /// What it means, if that is not its name.
    pub means: Option<String>,
}

impl Method {
    /// The `at`th method, which runs there.
    pub fn understand(
        attributes: &mut Vec<Attribute>,
        signature: &mut Signature,
        (at, mode): (usize, Mode),
    ) -> Result<Method> {
        check::method(signature)?;
        let Tag { reply_name, callers } = take_tag(attributes)?;
        let (pure, reply_means) = take_qualities(attributes)?;
        let mut caller = None;
        let mut parameters = Vec::new();
        let mut inputs = signature.inputs.iter_mut();
        match inputs.next() {
            Some(FnArg::Receiver(own)) if own.reference.is_some() && own.mutability.is_none() => {}
            _ => return Err(Error::new(signature.ident.span(), "a method takes &self first")),
        }
        for input in inputs {
            let FnArg::Typed(input) = input else { continue };
            if is_caller(&input.ty) {
                if caller.is_some() || !parameters.is_empty() {
                    let why = "a method takes &Caller once, right after &self";
                    return Err(Error::new(input.span(), why));
                }
                let mut ty = (*input.ty).clone();
                NameLifetimes.visit_type_mut(&mut ty);
                caller = Some(ty);
                continue;
            }
            let Pat::Ident(name) = &*input.pat else {
                return Err(Error::new(input.pat.span(), "a parameter is a plain name"));
            };
            let name = name.ident.clone();
            check::parameter(&name)?;
            let (mut range, mut encrypted, mut means) = (None, false, None);
            for attribute in core::mem::take(&mut input.attrs) {
                if attribute.path().is_ident("range") {
                    range = Some(bounds(&attribute.parse_args()?)?);
                } else if attribute.path().is_ident("encrypted") {
                    encrypted = true;
                } else if attribute.path().is_ident("means") {
                    means = Some(meaning(&attribute)?);
                } else {
                    input.attrs.push(attribute);
                }
            }
            let mut ty = (*input.ty).clone();
            NameLifetimes.visit_type_mut(&mut ty);
            parameters.push(Parameter { name, ty, range, encrypted, means });
        }
        let output = match &signature.output {
            ReturnType::Type(_, ty) => (**ty).clone(),
            ReturnType::Default => parse_quote!(()),
        };
        let (reply, failure) = reply_of(&output);
        check::reply(&reply)?;
        Ok(Method {
            name: signature.ident.clone(),
            number: at as u16,
            doc: doc_line(attributes),
            mode,
            pure,
            is_async: signature.asyncness.is_some(),
            caller,
            output,
            parameters,
            reply,
            reply_name,
            callers,
            reply_means,
            failure,
        })
    }

    pub fn gives_nothing(&self) -> bool {
        matches!(&self.reply, Type::Tuple(tuple) if tuple.elems.is_empty())
    }
}

pub fn tag_of(attribute: &Attribute) -> Option<Mode> {
    let path = attribute.path();
    if path.is_ident("stl_k") {
        Some(Mode::Kernel)
    } else if path.is_ident("stl_u") {
        Some(Mode::User)
    } else {
        None
    }
}

/// What a method's tag says.
struct Tag {
    reply_name: String,
    callers: Vec<Ident>,
}

/// Takes the tag off a method, if it has one.
fn take_tag(attributes: &mut Vec<Attribute>) -> Result<Tag> {
    let mut found = None;
    for attribute in core::mem::take(attributes) {
        if tag_of(&attribute).is_none() {
            attributes.push(attribute);
            continue;
        }
        if found.is_some() {
            return Err(Error::new(attribute.span(), "a method has one tag"));
        }
        let mut tag = Tag { reply_name: String::from("value"), callers: Vec::new() };
        if let Meta::List(_) = attribute.meta {
            for meta in attribute.parse_args_with(Listed::parse_terminated)? {
                if meta.path().is_ident("reply") {
                    tag.reply_name = text(&meta)?;
                } else if meta.path().is_ident("allow") {
                    tag.callers = callers(&meta)?;
                } else {
                    let known = "known here: reply = \"name\", allow(package, operator, peer)";
                    return Err(Error::new(meta.span(), known));
                }
            }
        }
        found = Some(tag);
    }
    Ok(found.unwrap_or(Tag { reply_name: String::new(), callers: Vec::new() }))
}

type Listed = Punctuated<Meta, Token![,]>;

/// Who may call, as in `allow(package, peer)`.
fn callers(meta: &Meta) -> Result<Vec<Ident>> {
    let listed = meta.require_list()?;
    let names = listed.parse_args_with(Punctuated::<Ident, Token![,]>::parse_terminated)?;
    for name in &names {
        if !["package", "operator", "peer"].iter().any(|known| name == known) {
            let why = "callers are package, operator, peer; the own node's kernels always may";
            return Err(Error::new(name.span(), why));
        }
    }
    Ok(names.into_iter().collect())
}

/// Takes off whether the method is pure, and what its reply means.
fn take_qualities(attributes: &mut Vec<Attribute>) -> Result<(bool, Option<String>)> {
    let (mut pure, mut means) = (false, None);
    for attribute in core::mem::take(attributes) {
        if attribute.path().is_ident("pure") {
            attribute.meta.require_path_only()?;
            pure = true;
        } else if attribute.path().is_ident("means") {
            means = Some(meaning(&attribute)?);
        } else {
            attributes.push(attribute);
        }
    }
    Ok((pure, means))
}

/// What stands in `#[means("…")]`.
fn meaning(attribute: &Attribute) -> Result<String> {
    let text: LitStr = attribute.parse_args()?;
    match text.value() {
        meaning if meaning.is_empty() || meaning.contains(char::is_whitespace) => {
            Err(Error::new(text.span(), "a meaning is a word"))
        }
        meaning => Ok(meaning),
    }
}

fn is_caller(ty: &Type) -> bool {
    let Type::Reference(reference) = ty else { return false };
    matches!(&*reference.elem, Type::Path(path)
        if path.path.segments.last().is_some_and(|last| last.ident == "Caller"))
}

/// What a method gives, and how it fails.
fn reply_of(output: &Type) -> (Type, Failure) {
    if let Type::Path(TypePath { path, .. }) = output
        && let Some(last) = path.segments.last()
        && (last.ident == "CallResult" || last.ident == "Result")
        && let syn::PathArguments::AngleBracketed(arguments) = &last.arguments
        && let Some(syn::GenericArgument::Type(value)) = arguments.args.first()
    {
        let is_ours = last.ident == "CallResult";
        return (value.clone(), if is_ours { Failure::CallError } else { Failure::Other });
    }
    (output.clone(), Failure::Never)
}

/// Gives lifetimes that were left out the name `'a`.
struct NameLifetimes;

impl VisitMut for NameLifetimes {
    fn visit_type_reference_mut(&mut self, reference: &mut syn::TypeReference) {
        reference.lifetime.get_or_insert_with(|| parse_quote!('a));
        visit_mut::visit_type_reference_mut(self, reference);
    }

    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident == "_" {
            *lifetime = Lifetime::new("'a", lifetime.span());
        }
    }
}

/// The bounds of a range as in `0..=9`.
pub fn bounds(range: &ExprRange) -> Result<(i128, i128)> {
    let bound = |expr: &Option<Box<Expr>>| match expr.as_deref() {
        Some(Expr::Lit(ExprLit { lit: Lit::Int(number), .. })) => number.base10_parse::<i128>(),
        Some(Expr::Unary(unary)) => match (&unary.op, &*unary.expr) {
            (syn::UnOp::Neg(_), Expr::Lit(ExprLit { lit: Lit::Int(number), .. })) => {
                Ok(-number.base10_parse::<i128>()?)
            }
            _ => Err(Error::new(range.span(), "bounds are integers")),
        },
        _ => Err(Error::new(range.span(), "a range has two bounds, as in 0..=9")),
    };
    let RangeLimits::Closed(_) = range.limits else {
        return Err(Error::new(range.span(), "write it as in 0..=9"));
    };
    let (least, most) = (bound(&range.start)?, bound(&range.end)?);
    if least > most {
        return Err(Error::new(range.span(), "the range is empty"));
    }
    Ok((least, most))
}

fn text(meta: &Meta) -> Result<String> {
    match &meta.require_name_value()?.value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(LitStr::value(text)),
        other => Err(Error::new(other.span(), "a text in quotes")),
    }
}

/// The first line of the doc comment.
pub fn doc_line(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
    let mut lines = lines.filter_map(|attribute| text(&attribute.meta).ok());
    lines.next().unwrap_or_default().trim().to_string()
}
