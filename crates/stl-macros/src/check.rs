//! What a service may not have, each told where it is: the compiler would tell it about
//! generated code that nobody sees.

use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Error, FnArg, Generics, Ident, ImplItemFn, ItemTrait, Lifetime, Result, Signature,
    TraitItemFn, Type, TypeReference,
};

use crate::declare::{Kind, OwnType, Says};
use crate::method::{Method, tag_of};

/// What every typed client has, and what every service answers.
const TAKEN: [&str; 5] = ["find", "find_at", "at", "core", "discover"];

/// The trait of an interface as a whole.
pub fn interface(item: &ItemTrait) -> Result<()> {
    if let Some(of) = item.supertraits.first() {
        return Err(Error::new(of.span(), "an interface stands by itself: no traits above it"));
    }
    plain(&item.generics, "an interface")
}

/// A method of an interface.
pub fn declared(item: &TraitItemFn) -> Result<()> {
    match &item.default {
        Some(body) => Err(Error::new(body.span(), "an interface only says what its methods are")),
        None => Ok(()),
    }
}

/// A method of an implementation whose interface stands elsewhere.
pub fn undeclared(item: &ImplItemFn) -> Result<()> {
    let parameters = item.sig.inputs.iter().flat_map(|input| match input {
        FnArg::Typed(input) => input.attrs.as_slice(),
        FnArg::Receiver(_) => &[],
    });
    let ours = |it: &&Attribute| {
        tag_of(it).is_some() || it.path().is_ident("range") || it.path().is_ident("encrypted")
    };
    match item.attrs.iter().chain(parameters).find(ours) {
        Some(attribute) => {
            Err(Error::new(attribute.span(), "the interface says that: leave it out"))
        }
        None => Ok(()),
    }
}

/// One method.
pub fn method(signature: &Signature) -> Result<()> {
    let name = &signature.ident;
    if TAKEN.contains(&plain_name(name).as_str()) {
        let why = format!("every service's client has a `{name}` already: name it otherwise");
        return Err(Error::new(name.span(), why));
    }
    plain(&signature.generics, "a method")
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
pub fn profile(says: &Says, methods: &[Method]) -> Result<usize> {
    let Kind::Own(OwnType { profile: Some(profile), .. }) = &says.ty else {
        return Ok(methods.len());
    };
    for (at, wanted) in profile.iter().enumerate() {
        if methods.get(at).is_none_or(|method| method.name != *wanted) {
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

pub fn plain(generics: &Generics, what: &str) -> Result<()> {
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

    use crate::input::Service;

    /// Why a service with this block is refused; nothing if it is not.
    fn refusal(block: &str) -> Option<String> {
        let attributes = quote!(subsystem = "tests", capability = "refusals");
        let block = syn::parse_str(block).expect("it is an item");
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
            ("NameKernel", "impl Trait for Tested { fn of(&self) {} }"),
            ("in <>", "trait Tested<T> { #[stl_k] fn of(&self); }"),
            ("in <>", "trait Tested { #[stl_k] fn of<T>(&self); }"),
            ("above", "trait Tested: Send { #[stl_k] fn of(&self); }"),
            ("only says", "trait Tested { #[stl_k] fn of(&self) {} }"),
            ("tagged", "trait Tested { fn of(&self); }"),
            ("tagged", "trait Tested {}"),
            ("methods alone", "trait Tested { type Of; }"),
            ("CallResult", "trait Tested { #[stl_k] fn of(&self) -> Result<u8, Error>; }"),
        ] {
            let why = refusal(block).unwrap_or_else(|| panic!("{block} is not refused"));
            assert!(why.contains(told), "{block}: {why}");
        }
    }

    #[test]
    fn an_implementation_leaves_to_its_interface_what_that_says() {
        let refusal = |method: &str| {
            let block = format!("impl TestedKernel for Tested {{ {method} }}");
            let block = syn::parse_str(&block).expect("it is an item");
            Service::understand(quote!(on = every), block).err().map(|error| error.to_string())
        };
        assert_eq!(refusal("fn of(&self, number: u8) -> u8 { 0 }"), None);
        for of in ["#[stl_k] fn of(&self) {}", "fn of(&self, #[range(0..=9)] number: u8) {}"] {
            let why = refusal(of).unwrap_or_else(|| panic!("{of} is not refused"));
            assert!(why.contains("leave it out"), "{of}: {why}");
        }
    }
}
