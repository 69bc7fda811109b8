//! The constants: the schema, the type and the interface; the registration of who implements it.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, Path};

use crate::check::plain_name;
use crate::declare::{
    Declared, DefaultInstance, Kind, Literal, OwnType, Rule, Says, Value, ValueKind,
};
use crate::input::{Interface, Registered};
use crate::method::{Method, Mode, Parameter};

/// What callers link.
pub fn declare(interface: &Interface) -> TokenStream {
    let Interface { visibility, name, doc, says, .. } = interface;
    let methods = interface.methods.iter().map(method);
    let (own, ty, at) = match &says.ty {
        Kind::Own(own) => (own_type(interface, own), quote!(TYPE), interface.ident.span()),
        Kind::Other(path) => (quote!(), quote!(#path), path.span()),
    };
    // Most services have a type of their own about which nothing more is said.
    let said = match &says.ty {
        Kind::Own(own) if own.says_nothing() => quote!(::core::option::Option::None),
        _ => quote!(::core::option::Option::Some(&#ty)),
    };
    let fits = fits(at, &quote!(of_interface(&INTERFACE, &#ty)));
    quote! {
        /// What the service says about itself.
        #visibility static SCHEMA: ::nile_stl::generated::bosml::schema::Service<'static> =
            ::nile_stl::generated::bosml::schema::Service {
                name: ::nile_stl::generated::Cow::Borrowed(#name),
                doc: ::nile_stl::generated::Cow::Borrowed(#doc),
                methods: ::nile_stl::generated::Cow::Borrowed(const { &[#(#methods),*] }),
            };

        #own

        /// The service as its callers know it.
        #visibility static INTERFACE: ::nile_stl::Interface = ::nile_stl::Interface {
            name: #name,
            schema: &SCHEMA,
            fingerprint: ::nile_stl::Fingerprint::of(&SCHEMA),
            ty: #said,
            subsystem: ::nile_stl::service::declared::text(&#ty.subsystem),
            capability: ::nile_stl::service::declared::text(&#ty.capability),
            layer: #ty.layer,
        };

        #fits
    }
}

/// How the node gets the service.
pub fn register(registered: &Registered) -> TokenStream {
    let Registered { doc, declared, kernel, user } = registered;
    let Declared { working, on, keywords, attributes, policy, .. } = declared;
    let Some((state, methods_of)) = kernel.as_ref().or(user.as_ref()) else { return quote!() };
    let interface = quote!(<dyn #methods_of as ::nile_stl::Methods>::INTERFACE);
    let weight = |(word, weight): &(String, u16)| {
        let weight = u32::from(*weight);
        quote!((#word, #weight))
    };
    let keywords = keywords.iter().map(weight);
    let attributes = values(attributes);
    // What an implementation does not say of itself, its interface says.
    let working = match [working, doc].into_iter().find(|text| !text.is_empty()) {
        Some(working) => quote!(#working),
        None => quote!(::nile_stl::service::declared::text(&#interface.schema.doc)),
    };
    let on = match on.to_string().as_str() {
        "every" => quote!(::nile_stl::On::Every),
        "manager" => quote!(::nile_stl::On::Manager),
        role => {
            let role = format_ident!("{}", capital(role), span = on.span());
            quote!(::nile_stl::On::Roles(
                ::nile_stl::generated::RoleSet::EMPTY.with(::nile_stl::generated::Role::#role)
            ))
        }
    };
    let half = |half: &Option<(Ident, Path)>| match half {
        None => quote!(::core::option::Option::None),
        Some((state, methods_of)) => quote! {
            ::core::option::Option::Some(|stl| {
                let state = <#state as ::nile_stl::Start>::start(stl);
                ::nile_stl::Half::of::<dyn #methods_of>(::nile_stl::generated::Rc::new(state))
            })
        },
    };
    let (kernel, user) = (half(kernel), half(user));
    let policy = match policy {
        None => quote!(::core::option::Option::None),
        Some(policy) => quote!(::core::option::Option::Some(|| {
            ::nile_stl::generated::Box::new(<#policy as ::core::default::Default>::default())
        })),
    };
    let fits = fits(state.span(), &quote!(of(&REGISTRATION)));
    quote! {
        /// The service as the node deploys it.
        pub static REGISTRATION: ::nile_stl::Registration = ::nile_stl::Registration {
            interface: #interface,
            working: #working,
            keywords: &[#(#keywords),*],
            attributes: #attributes,
            on: #on,
            kernel: #kernel,
            user: #user,
            policy: #policy,
        };

        #fits
    }
}

/// Has the compiler tell what does not fit the service's type.
fn fits(at: Span, misfit: &TokenStream) -> TokenStream {
    quote_spanned! {at=>
        const _: () = if let ::core::option::Option::Some(why) =
            ::nile_stl::service::declared::Misfit::#misfit
        {
            ::core::panic!("{}", why.as_str());
        };
    }
}

/// The type that a service declares.
fn own_type(interface: &Interface, own: &OwnType) -> TokenStream {
    let Interface { visibility, name, doc, says, profile, .. } = interface;
    let Says { subsystem, capability, layer, .. } = says;
    let type_name = own.name.as_ref().unwrap_or(name);
    let (attributes, parameters) = (rules(&own.attributes), rules(&own.parameters));
    let extends = match &own.extends {
        Some(path) => quote! {
            ::core::option::Option::Some(::nile_stl::service::declared::Parent::Static(&#path))
        },
        None => quote!(::core::option::Option::None),
    };
    let state = values(&own.state);
    let default = match &own.default {
        DefaultInstance::This => Some(name),
        DefaultInstance::Other(name) => Some(name),
        DefaultInstance::Nobody => None,
    };
    let default = match default {
        Some(name) => quote! {
            ::core::option::Option::Some(::nile_stl::generated::Cow::Borrowed(#name))
        },
        None => quote!(::core::option::Option::None),
    };
    quote! {
        /// What the service has in common with others of its type.
        #visibility static TYPE: ::nile_stl::service::declared::ServiceType =
            ::nile_stl::service::declared::ServiceType {
                name: ::nile_stl::generated::Cow::Borrowed(#type_name),
                subsystem: ::nile_stl::generated::Cow::Borrowed(#subsystem),
                capability: ::nile_stl::generated::Cow::Borrowed(#capability),
                layer: ::nile_stl::generated::Layer::#layer,
                extends: #extends,
                description: ::nile_stl::generated::Cow::Borrowed(#doc),
                profile: ::nile_stl::generated::bosml::schema::Service {
                    name: ::nile_stl::generated::Cow::Borrowed(#type_name),
                    doc: ::nile_stl::generated::Cow::Borrowed(#doc),
                    methods: ::nile_stl::generated::Cow::Borrowed(
                        ::nile_stl::service::declared::first(&SCHEMA, #profile),
                    ),
                },
                state: ::nile_stl::generated::Cow::Borrowed(#state),
                attributes: ::nile_stl::generated::Cow::Borrowed(#attributes),
                parameters: ::nile_stl::generated::Cow::Borrowed(#parameters),
                default_instance: #default,
            };
    }
}

fn values(values: &[Value]) -> TokenStream {
    let values = values.iter().map(|Value { name, value }| {
        let value = match value {
            Literal::Int(value) => quote!(Int(#value)),
            Literal::Bool(value) => quote!(Bool(#value)),
            Literal::Text(value) => quote!(Text(::nile_stl::generated::Cow::Borrowed(#value))),
        };
        quote! {
            ::nile_stl::service::declared::attribute(
                #name,
                ::nile_stl::service::declared::AttributeValue::#value,
            )
        }
    });
    quote!(const { &[#(#values),*] })
}

fn rules(rules: &[Rule]) -> TokenStream {
    let rules = rules.iter().map(|Rule { name, kind, range, required }| {
        let kind = match kind {
            ValueKind::Int => quote!(Int),
            ValueKind::Bool => quote!(Bool),
            ValueKind::Text => quote!(Text),
        };
        let range = range_of(*range);
        quote! {
            ::nile_stl::service::declared::rule(
                #name,
                ::nile_stl::service::declared::AttributeKind::#kind,
                #range,
                #required,
            )
        }
    });
    quote!(const { &[#(#rules),*] })
}

/// Bounds, if there are any.
fn range_of(range: Option<(i128, i128)>) -> TokenStream {
    match range {
        None => quote!(::core::option::Option::None),
        Some((least, most)) => quote! {
            ::core::option::Option::Some(::nile_stl::generated::bosml::schema::Range {
                least: #least,
                most: #most,
            })
        },
    }
}

fn method(method: &Method) -> TokenStream {
    let (name, doc) = (plain_name(&method.name), &method.doc);
    let mode = match method.mode {
        Mode::Kernel => quote!(Kernel),
        Mode::User => quote!(User),
    };
    let pure = method.pure;
    let parameters = method.parameters.iter().map(parameter);
    let callers = method.callers.iter().map(|kind| format_ident!("{}", capital(&kind.to_string())));
    let reply = if method.gives_nothing() {
        quote!()
    } else {
        let (name, ty) = (&method.reply_name, &method.reply);
        let doc = doc_of(method.reply_means.as_deref());
        quote! {
            ::nile_stl::generated::bosml::schema::Parameter {
                name: ::nile_stl::generated::Cow::Borrowed(#name),
                doc: ::nile_stl::generated::Cow::Borrowed(#doc),
                ty: <#ty as ::nile_stl::generated::bosml::Typed>::TYPE,
                range: ::core::option::Option::None,
                encoded: true,
                encrypted: false,
            }
        }
    };
    quote! {
        ::nile_stl::generated::bosml::schema::Method {
            name: ::nile_stl::generated::Cow::Borrowed(#name),
            doc: ::nile_stl::generated::Cow::Borrowed(#doc),
            mode: ::nile_stl::generated::bosml::schema::Mode::#mode,
            callers: ::nile_stl::generated::bosml::schema::Callers::NONE #(.with(
                ::nile_stl::generated::bosml::schema::CallerKind::#callers
            ))*,
            pure: #pure,
            parameters: ::nile_stl::generated::Cow::Borrowed(const { &[#(#parameters),*] }),
            reply: ::nile_stl::generated::Cow::Borrowed(const { &[#reply] }),
        }
    }
}

fn parameter(parameter: &Parameter) -> TokenStream {
    let Parameter { name, ty, range, encrypted, means } = parameter;
    let (name, doc) = (plain_name(name), doc_of(means.as_deref()));
    let mut ty = ty.clone();
    syn::visit_mut::VisitMut::visit_type_mut(&mut Static, &mut ty);
    let range = range_of(*range);
    quote! {
        ::nile_stl::generated::bosml::schema::Parameter {
            name: ::nile_stl::generated::Cow::Borrowed(#name),
            doc: ::nile_stl::generated::Cow::Borrowed(#doc),
            ty: <#ty as ::nile_stl::generated::bosml::Typed>::TYPE,
            range: #range,
            encoded: true,
            encrypted: #encrypted,
        }
    }
}

/// The documentation of a value: what it means, if its name does not say that.
fn doc_of(means: Option<&str>) -> String {
    means.map_or_else(String::new, |means| format!("means {means}"))
}

/// Makes every lifetime `'static`.
struct Static;

impl syn::visit_mut::VisitMut for Static {
    fn visit_lifetime_mut(&mut self, lifetime: &mut syn::Lifetime) {
        *lifetime = syn::Lifetime::new("'static", lifetime.span());
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
