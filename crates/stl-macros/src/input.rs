//! The `impl` block of a service, understood.

use proc_macro2::TokenStream;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Error, Expr, ExprLit, ExprRange, FnArg, Ident, ImplItem, ImplItemFn, ItemImpl,
    Lifetime, Lit, LitStr, Meta, Pat, RangeLimits, Result, ReturnType, Type, TypePath, parse_quote,
};

use crate::check;
use crate::declare::Declared;

/// A service.
pub struct Service {
    pub block: ItemImpl,
    /// The struct with the kernel half's state.
    pub state: Ident,
    /// The struct with the user half's.
    pub user_state: Ident,
    /// As it is called: the struct's name in snake case.
    pub name: String,
    pub doc: String,
    pub declared: Declared,
    /// So many of its first methods are those of the type that it declares.
    pub profile: usize,
    pub methods: Vec<Method>,
}

/// Where a method runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Kernel,
    User,
}

/// A method.
pub struct Method {
    /// As it was written, without the attributes that are ours.
    pub item: ImplItemFn,
    pub name: Ident,
    pub number: u16,
    pub doc: String,
    pub mode: Mode,
    pub is_async: bool,
    pub takes_caller: bool,
    pub parameters: Vec<Parameter>,
    /// What it gives, without `CallResult`.
    pub reply: Type,
    pub reply_name: String,
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
pub struct Parameter {
    pub name: Ident,
    /// With every lifetime that was left out called `'a`.
    pub ty: Type,
    pub range: Option<(i128, i128)>,
    pub encrypted: bool,
}

impl Service {
    pub fn understand(attributes: TokenStream, mut block: ItemImpl) -> Result<Service> {
        check::block(&block)?;
        let state = match &*block.self_ty {
            Type::Path(TypePath { path, .. }) => path.require_ident()?.clone(),
            other => return Err(Error::new(other.span(), "a service is a plain struct")),
        };
        let declared = Declared::understand(attributes, state.span())?;
        let mut service = Service {
            name: snake_case(&state.to_string()),
            doc: doc_line(&block.attrs),
            user_state: declared.user.clone().unwrap_or_else(|| state.clone()),
            state,
            declared,
            profile: 0,
            methods: Vec::new(),
            block: block.clone(),
        };
        if service.declared.working.is_empty() {
            service.declared.working = service.doc.clone();
        }
        let mut rest = Vec::new();
        for item in block.items {
            match item {
                ImplItem::Fn(item) if mode_of(&item).is_some() => {
                    let number = service.methods.len() as u16;
                    service.methods.push(Method::understand(item, number)?);
                }
                other => rest.push(other),
            }
        }
        block.items = rest;
        service.block = block;
        if service.methods.is_empty() {
            let why = "no method is tagged #[stl_k] or #[stl_u]";
            return Err(Error::new(service.state.span(), why));
        }
        service.profile = check::profile(&service)?;
        Ok(service)
    }

    pub fn of_mode(&self, mode: Mode) -> impl Iterator<Item = &Method> {
        self.methods.iter().filter(move |method| method.mode == mode)
    }
}

impl Method {
    fn understand(mut item: ImplItemFn, number: u16) -> Result<Method> {
        check::method(&item)?;
        let (mode, reply_name) = take_tag(&mut item)?;
        let mut takes_caller = false;
        let mut parameters = Vec::new();
        let mut inputs = item.sig.inputs.iter_mut();
        match inputs.next() {
            Some(FnArg::Receiver(own)) if own.reference.is_some() && own.mutability.is_none() => {}
            _ => return Err(Error::new(item.sig.ident.span(), "a method takes &self first")),
        }
        for input in inputs {
            let FnArg::Typed(input) = input else { continue };
            if is_caller(&input.ty) {
                if takes_caller || !parameters.is_empty() {
                    let why = "a method takes &Caller once, right after &self";
                    return Err(Error::new(input.span(), why));
                }
                takes_caller = true;
                continue;
            }
            let Pat::Ident(name) = &*input.pat else {
                return Err(Error::new(input.pat.span(), "a parameter is a plain name"));
            };
            let name = name.ident.clone();
            check::parameter(&name)?;
            let (mut range, mut encrypted) = (None, false);
            for attribute in core::mem::take(&mut input.attrs) {
                if attribute.path().is_ident("range") {
                    range = Some(bounds(&attribute.parse_args()?)?);
                } else if attribute.path().is_ident("encrypted") {
                    encrypted = true;
                } else {
                    input.attrs.push(attribute);
                }
            }
            let mut ty = (*input.ty).clone();
            NameLifetimes.visit_type_mut(&mut ty);
            parameters.push(Parameter { name, ty, range, encrypted });
        }
        let (reply, failure) = reply_of(&item.sig.output)?;
        check::reply(&reply)?;
        Ok(Method {
            name: item.sig.ident.clone(),
            number,
            doc: doc_line(&item.attrs),
            mode,
            is_async: item.sig.asyncness.is_some(),
            takes_caller,
            parameters,
            reply,
            reply_name,
            failure,
            item,
        })
    }

    pub fn gives_nothing(&self) -> bool {
        matches!(&self.reply, Type::Tuple(tuple) if tuple.elems.is_empty())
    }
}

fn mode_of(item: &ImplItemFn) -> Option<Mode> {
    item.attrs.iter().find_map(tag_of)
}

fn tag_of(attribute: &Attribute) -> Option<Mode> {
    let path = attribute.path();
    if path.is_ident("stl_k") {
        Some(Mode::Kernel)
    } else if path.is_ident("stl_u") {
        Some(Mode::User)
    } else {
        None
    }
}

/// Takes the tag off a method: its mode and its reply's name.
fn take_tag(item: &mut ImplItemFn) -> Result<(Mode, String)> {
    let mut found = None;
    for attribute in core::mem::take(&mut item.attrs) {
        let Some(mode) = tag_of(&attribute) else {
            item.attrs.push(attribute);
            continue;
        };
        if found.is_some() {
            return Err(Error::new(attribute.span(), "a method has one tag"));
        }
        let mut name = String::from("value");
        if let Meta::List(_) = attribute.meta {
            let meta: Meta = attribute.parse_args()?;
            if !meta.path().is_ident("reply") {
                return Err(Error::new(meta.span(), "known here: reply = \"name\""));
            }
            name = text(&meta)?;
        }
        found = Some((mode, name));
    }
    Ok(found.expect("only methods with a tag come here"))
}

fn is_caller(ty: &Type) -> bool {
    let Type::Reference(reference) = ty else { return false };
    matches!(&*reference.elem, Type::Path(path)
        if path.path.segments.last().is_some_and(|last| last.ident == "Caller"))
}

/// What a method gives, and how it fails.
fn reply_of(output: &ReturnType) -> Result<(Type, Failure)> {
    let ReturnType::Type(_, ty) = output else { return Ok((parse_quote!(()), Failure::Never)) };
    if let Type::Path(TypePath { path, .. }) = &**ty
        && let Some(last) = path.segments.last()
        && (last.ident == "CallResult" || last.ident == "Result")
        && let syn::PathArguments::AngleBracketed(arguments) = &last.arguments
        && let Some(syn::GenericArgument::Type(value)) = arguments.args.first()
    {
        let is_ours = last.ident == "CallResult";
        return Ok((value.clone(), if is_ours { Failure::CallError } else { Failure::Other }));
    }
    Ok(((**ty).clone(), Failure::Never))
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
fn doc_line(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
    let mut lines = lines.filter_map(|attribute| text(&attribute.meta).ok());
    lines.next().unwrap_or_default().trim().to_string()
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}
