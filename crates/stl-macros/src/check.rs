//! What a service's block may not have, each told where it is: the compiler would tell it about
//! generated code that nobody sees.

use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Error, Generics, Ident, ImplItemFn, ItemImpl, Lifetime, Result, Type, TypeReference};

use crate::declare::{Kind, OwnType};
use crate::input::Service;

/// What every typed client has, and what every service answers.
const TAKEN: [&str; 5] = ["find", "find_at", "at", "core", "discover"];

/// The block as a whole.
pub fn block(block: &ItemImpl) -> Result<()> {
    if let Some((_, of, _)) = &block.trait_ {
        return Err(Error::new(of.span(), "a service is an impl block of its own, of no trait"));
    }
    plain(&block.generics, "a service")
}

/// One method.
pub fn method(item: &ImplItemFn) -> Result<()> {
    let name = &item.sig.ident;
    if TAKEN.contains(&plain_name(name).as_str()) {
        let why = format!("every service's client has a `{name}` already: name it otherwise");
        return Err(Error::new(name.span(), why));
    }
    plain(&item.sig.generics, "a method")
}

/// A parameter's name.
pub fn parameter(name: &Ident) -> Result<()> {
    if name.to_string().starts_with("__") {
        let why = "names that begin with two underscores are those of the generated code";
        return Err(Error::new(name.span(), why));
    }
    Ok(())
}

/// What a method gives.
pub fn reply(ty: &Type) -> Result<()> {
    let mut borrows = Borrows(None);
    borrows.visit_type_mut(&mut ty.clone());
    match borrows.0 {
        Some(span) => Err(Error::new(span, "a method gives what it owns: its reply may travel")),
        None => Ok(()),
    }
}

/// The methods of the type that a service declares: so many of its first ones.
pub fn profile(service: &Service) -> Result<usize> {
    let Kind::Own(OwnType { profile: Some(profile), .. }) = &service.declared.ty else {
        return Ok(service.methods.len());
    };
    for (at, wanted) in profile.iter().enumerate() {
        if service.methods.get(at).is_none_or(|method| method.name != *wanted) {
            let why = "a profile is the service's first methods in their order, so that they have \
                       the same numbers in every instance: move the method, or name another";
            return Err(Error::new(wanted.span(), why));
        }
    }
    Ok(profile.len())
}

/// A name as it travels: without the mark of one that is a keyword of the language, too.
pub fn plain_name(name: &Ident) -> String {
    name.unraw().to_string()
}

fn plain(generics: &Generics, what: &str) -> Result<()> {
    match generics.params.first() {
        Some(first) => {
            let why = format!("{what} has no parameters in <>: what travels is of one known type");
            Err(Error::new(first.span(), why))
        }
        None => Ok(()),
    }
}

/// Where a type borrows, if it does.
struct Borrows(Option<proc_macro2::Span>);

impl VisitMut for Borrows {
    fn visit_type_reference_mut(&mut self, reference: &mut TypeReference) {
        self.0.get_or_insert(reference.span());
        visit_mut::visit_type_reference_mut(self, reference);
    }

    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        self.0.get_or_insert(lifetime.span());
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    /// Why a service with this block is refused; nothing if it is not.
    fn refusal(block: &str) -> Option<String> {
        let attributes = quote!(subsystem = "tests", capability = "refusals");
        let block = syn::parse_str(block).expect("it is an impl block");
        Service::understand(attributes, block).err().map(|error| error.to_string())
    }

    fn method(method: &str) -> Option<String> {
        refusal(&format!("impl Tested {{ #[stl_k] {method} }}"))
    }

    #[test]
    fn what_works_is_not_refused() {
        for fine in [
            "fn nothing(&self) {}",
            "fn unit(&self) -> CallResult<()> { Ok(()) }",
            "fn r#type(&self, r#move: u8, mut state: u8) {}",
            "async fn all(&self, c: &Caller, a: &str, b: Bytes<'_>) -> u8 { 0 }",
        ] {
            assert_eq!(method(fine), None, "{fine}");
        }
    }

    #[test]
    fn what_cannot_work_is_told_in_its_own_words() {
        for name in ["find", "find_at", "at", "core", "discover", "r#at"] {
            let why = method(&format!("fn {name}(&self) {{}}")).expect("the client has it");
            assert!(why.contains("client"), "{why}");
        }
        for (told, of) in [
            ("in <>", "fn of<T>(&self, it: T) {}"),
            ("in <>", "fn of<'b>(&self, it: &'b str) {}"),
            ("owns", "fn of(&self) -> &str { text }"),
            ("owns", "fn of(&self) -> CallResult<Vec<Bytes<'_>>> { Ok(all) }"),
            ("&Caller", "fn of(&self, number: u8, caller: &Caller) {}"),
            ("&Caller", "fn of(&self, caller: &Caller, again: &Caller) {}"),
            ("underscores", "fn of(&self, __caller: u8) {}"),
            ("empty", "fn of(&self, #[range(9..=0)] number: u8) {}"),
            ("two bounds", "fn of(&self, #[range(..=9)] number: u8) {}"),
            ("plain name", "fn of(&self, (a, b): (u8, u8)) {}"),
            ("&self", "fn of(&mut self) {}"),
            ("&self", "fn of(number: u8) {}"),
        ] {
            let why = method(of).unwrap_or_else(|| panic!("{of} is not refused"));
            assert!(why.contains(told), "{of}: {why}");
        }
        assert!(refusal("impl<T> Tested<T> { #[stl_k] fn of(&self) {} }").is_some());
        for (told, block) in [
            ("in <>", "impl<'a> Tested { #[stl_k] fn of(&self) {} }"),
            ("trait", "impl Trait for Tested { #[stl_k] fn of(&self) {} }"),
        ] {
            let why = refusal(block).unwrap_or_else(|| panic!("{block} is not refused"));
            assert!(why.contains(told), "{block}: {why}");
        }
    }
}
