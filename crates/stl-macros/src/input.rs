//! What `#[service]` stands at, understood: what a service says, and who does it. A trait has the
//! first, an `impl` block of a trait the second, an `impl` block of its own both.

use proc_macro2::TokenStream;
use quote::format_ident;
use syn::spanned::Spanned;
use syn::{
    Error, Ident, ImplItem, ImplItemFn, Item, ItemImpl, ItemTrait, Path, Result, TraitItem, Type,
    TypePath, Visibility, parse_quote,
};

use crate::check;
use crate::declare::{Declared, Form, Says};
use crate::method::{Failure, Method, Mode, doc_line, tag_of};

/// A service, as far as it stands here.
#[derive(Default)]
pub struct Service {
    pub interface: Option<Interface>,
    pub implementation: Option<Implementation>,
}

/// What a service says.
pub struct Interface {
    pub visibility: Visibility,
    /// What generated names begin with.
    pub ident: Ident,
    /// As it is called: that in snake case.
    pub name: String,
    pub doc: String,
    pub says: Says,
    /// So many of its first methods are those of the type that it declares.
    pub profile: usize,
    pub methods: Vec<Method>,
}

/// Who does it.
pub struct Implementation {
    pub halves: Vec<Half>,
    /// Helpers that stand between the methods.
    pub rest: Option<ItemImpl>,
    /// What is registered, if that is done here.
    pub registered: Option<Registered>,
}

/// What implements one half.
pub struct Half {
    /// The struct with its state.
    pub state: Ident,
    /// The trait with its methods.
    pub methods_of: Path,
    pub methods: Vec<Method>,
    /// The methods as they were written, without the attributes that are ours.
    pub items: Vec<ImplItemFn>,
}

/// What is registered.
pub struct Registered {
    pub doc: String,
    pub declared: Declared,
    /// The struct and the trait of each half.
    pub kernel: Option<(Ident, Path)>,
    pub user: Option<(Ident, Path)>,
}

impl Service {
    pub fn understand(attributes: TokenStream, item: Item) -> Result<Service> {
        match item {
            Item::Trait(item) => Service::of_trait(attributes, item),
            Item::Impl(block) if block.trait_.is_some() => Service::of_methods(attributes, block),
            Item::Impl(block) => Service::of_block(attributes, block),
            other => Err(Error::new(other.span(), "a service is a trait or an impl block")),
        }
    }

    /// The interface alone.
    fn of_trait(attributes: TokenStream, item: ItemTrait) -> Result<Service> {
        check::interface(&item)?;
        let declared = Declared::understand(attributes, item.ident.span(), Form::Interface)?;
        let mut methods = Vec::new();
        for item in item.items {
            let TraitItem::Fn(mut item) = item else {
                return Err(Error::new(item.span(), "an interface has methods alone"));
            };
            let Some(mode) = item.attrs.iter().find_map(tag_of) else {
                let why = "a method is tagged #[stl_k] or #[stl_u]";
                return Err(Error::new(item.sig.ident.span(), why));
            };
            check::declared(&item)?;
            let at = (methods.len(), mode);
            let method = Method::understand(&mut item.attrs, &mut item.sig, at)?;
            if method.failure == Failure::Other {
                let why = "a method that may fail gives a CallResult: that is what callers get";
                return Err(Error::new(item.sig.output.span(), why));
            }
            methods.push(method);
        }
        let (ident, doc) = (item.ident, doc_line(&item.attrs));
        let interface = Interface::new(item.vis, ident, doc, declared.says, methods)?;
        Ok(Service { interface: Some(interface), implementation: None })
    }

    /// The implementation alone: of the half whose trait it is, and the registration.
    fn of_methods(attributes: TokenStream, block: ItemImpl) -> Result<Service> {
        let doc = doc_line(&block.attrs);
        let half = Half::understand(block)?;
        let declared = Declared::understand(attributes, half.state.span(), Form::Implementation)?;
        let own = Some((half.state.clone(), half.methods_of.clone()));
        let (kernel, user) = match (mode_of_trait(&half.methods_of)?, &declared.user) {
            (Mode::User, None) => (None, own),
            (Mode::User, Some(other)) => {
                let why = "`user` stands at the kernel's half, and #[half] at that of the user";
                return Err(Error::new(other.span(), why));
            }
            (Mode::Kernel, None) => (own, None),
            (Mode::Kernel, Some(other)) => (own, Some((other.clone(), user_of(&half.methods_of)))),
        };
        let registered = Registered { doc, declared, kernel, user };
        let implementation =
            Implementation { halves: vec![half], rest: None, registered: Some(registered) };
        Ok(Service { interface: None, implementation: Some(implementation) })
    }

    /// One half of an implementation.
    pub fn half(block: ItemImpl) -> Result<Service> {
        let halves = vec![Half::understand(block)?];
        let implementation = Implementation { halves, rest: None, registered: None };
        Ok(Service { interface: None, implementation: Some(implementation) })
    }

    /// Both in one.
    fn of_block(attributes: TokenStream, mut block: ItemImpl) -> Result<Service> {
        check::plain(&block.generics, "a service")?;
        let state = state_of(&block)?;
        let declared = Declared::understand(attributes, state.span(), Form::Both)?;
        let (mut methods, mut rest) = (Vec::new(), Vec::new());
        let halves = [Mode::Kernel, Mode::User].map(|mode| match (mode, &declared.user) {
            (Mode::User, Some(user)) => Half::new(user.clone(), methods_of(&state, mode)),
            _ => Half::new(state.clone(), methods_of(&state, mode)),
        });
        let [mut kernel, mut user] = halves;
        for item in core::mem::take(&mut block.items) {
            match item {
                ImplItem::Fn(mut item) if item.attrs.iter().any(|it| tag_of(it).is_some()) => {
                    let tag = item.attrs.iter().find_map(tag_of).unwrap_or(Mode::Kernel);
                    let at = (methods.len(), tag);
                    let method = Method::understand(&mut item.attrs, &mut item.sig, at)?;
                    let half = if tag == Mode::Kernel { &mut kernel } else { &mut user };
                    half.items.push(item);
                    half.methods.push(method.clone());
                    methods.push(method);
                }
                other => rest.push(other),
            }
        }
        block.items = rest;
        let doc = doc_line(&block.attrs);
        let (vis, says) = (parse_quote!(pub), declared.says.clone());
        let interface = Interface::new(vis, state, doc.clone(), says, methods)?;
        let halves: Vec<_> = [kernel, user].into_iter().filter(|it| !it.items.is_empty()).collect();
        let made = |mode| {
            let mut halves = halves.iter().filter(|it| it.methods[0].mode == mode);
            halves.next().map(|half| (half.state.clone(), half.methods_of.clone()))
        };
        let (kernel, user) = (made(Mode::Kernel), made(Mode::User));
        let registered = Some(Registered { doc, declared, kernel, user });
        let implementation = Implementation { halves, rest: Some(block), registered };
        Ok(Service { interface: Some(interface), implementation: Some(implementation) })
    }
}

impl Interface {
    fn new(
        visibility: Visibility,
        ident: Ident,
        doc: String,
        says: Says,
        methods: Vec<Method>,
    ) -> Result<Interface> {
        if methods.is_empty() {
            let why = "no method is tagged #[stl_k] or #[stl_u]";
            return Err(Error::new(ident.span(), why));
        }
        let name = snake_case(&ident.to_string());
        let profile = check::profile(&says, &methods)?;
        Ok(Interface { visibility, ident, name, doc, says, profile, methods })
    }

    pub fn of_mode(&self, mode: Mode) -> impl Iterator<Item = &Method> {
        self.methods.iter().filter(move |method| method.mode == mode)
    }

    /// The halves that there are.
    pub fn modes(&self) -> impl Iterator<Item = Mode> {
        let all = [Mode::Kernel, Mode::User].into_iter();
        all.filter(|mode| self.of_mode(*mode).next().is_some())
    }
}

impl Half {
    fn new(state: Ident, methods_of: Ident) -> Half {
        Half { state, methods_of: methods_of.into(), methods: Vec::new(), items: Vec::new() }
    }

    /// An `impl` block of the trait of a half.
    fn understand(block: ItemImpl) -> Result<Half> {
        check::plain(&block.generics, "a service")?;
        let state = state_of(&block)?;
        let Some((None, methods_of, _)) = block.trait_ else {
            let why = "a half is the impl block of a trait NameKernel or NameUser";
            return Err(Error::new(state.span(), why));
        };
        let mode = mode_of_trait(&methods_of)?;
        let mut half = Half { state, methods_of, methods: Vec::new(), items: Vec::new() };
        for item in block.items {
            let ImplItem::Fn(mut item) = item else {
                return Err(Error::new(item.span(), "an interface has methods alone"));
            };
            check::undeclared(&item)?;
            let at = (half.methods.len(), mode);
            half.methods.push(Method::understand(&mut item.attrs, &mut item.sig, at)?);
            half.items.push(item);
        }
        Ok(half)
    }
}

/// The struct that a block is of.
fn state_of(block: &ItemImpl) -> Result<Ident> {
    match &*block.self_ty {
        Type::Path(TypePath { path, .. }) => path.require_ident().cloned(),
        other => Err(Error::new(other.span(), "a service is a plain struct")),
    }
}

/// The trait with the methods of one half.
pub fn methods_of(service: &Ident, mode: Mode) -> Ident {
    match mode {
        Mode::Kernel => format_ident!("{service}Kernel"),
        Mode::User => format_ident!("{service}User"),
    }
}

/// Of which half a trait is.
fn mode_of_trait(path: &Path) -> Result<Mode> {
    let name = path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
    match name {
        name if name.ends_with("Kernel") => Ok(Mode::Kernel),
        name if name.ends_with("User") => Ok(Mode::User),
        _ => {
            let why = "a half implements the trait NameKernel or NameUser that #[service] has \
                       made of a trait Name";
            Err(Error::new(path.span(), why))
        }
    }
}

/// The trait of the user's half beside that of the kernel's.
fn user_of(kernel: &Path) -> Path {
    let mut path = kernel.clone();
    if let Some(last) = path.segments.last_mut() {
        let name = last.ident.to_string();
        let name = name.strip_suffix("Kernel").unwrap_or(&name);
        last.ident = Ident::new(&format!("{name}User"), last.ident.span());
    }
    path
}

pub fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}
