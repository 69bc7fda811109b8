//! The constant schema and the registration.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::check::plain_name;
use crate::half::names;
use crate::input::{Method, Mode, Parameter, Service};

pub fn generate(service: &Service) -> TokenStream {
    let Service { name, doc, subsystem, capability, working, layer, .. } = service;
    let methods = service.methods.iter().map(method);
    let keywords = service.keywords.iter().map(|(word, weight)| quote!((#word, #weight)));
    let on = match service.on.to_string().as_str() {
        "every" => quote!(::nile_stl::On::Every),
        "manager" => quote!(::nile_stl::On::Manager),
        role => {
            let role = format_ident!("{}", capital(role), span = service.on.span());
            quote!(::nile_stl::On::Roles(
                ::nile_stl::generated::RoleSet::EMPTY.with(::nile_stl::generated::Role::#role)
            ))
        }
    };
    let half = |mode: Mode| {
        if service.of_mode(mode).next().is_none() {
            return quote!(::core::option::Option::None);
        }
        let make = names(service, mode).make;
        quote!(::core::option::Option::Some(#make))
    };
    let (kernel, user) = (half(Mode::Kernel), half(Mode::User));
    quote! {
        /// What the service says about itself.
        pub static SCHEMA: ::nile_stl::generated::bosml::schema::Service<'static> =
            ::nile_stl::generated::bosml::schema::Service {
                name: ::nile_stl::generated::Cow::Borrowed(#name),
                doc: ::nile_stl::generated::Cow::Borrowed(#doc),
                methods: ::nile_stl::generated::Cow::Borrowed(const { &[#(#methods),*] }),
            };

        /// The service as the node deploys it.
        pub static REGISTRATION: ::nile_stl::Registration = ::nile_stl::Registration {
            name: #name,
            schema: &SCHEMA,
            subsystem: #subsystem,
            capability: #capability,
            layer: ::nile_stl::generated::Layer::#layer,
            working: #working,
            keywords: &[#(#keywords),*],
            on: #on,
            kernel: #kernel,
            user: #user,
        };
    }
}

fn method(method: &Method) -> TokenStream {
    let (name, doc) = (plain_name(&method.name), &method.doc);
    let mode = match method.mode {
        Mode::Kernel => quote!(Kernel),
        Mode::User => quote!(User),
    };
    let parameters = method.parameters.iter().map(parameter);
    let reply = if method.gives_nothing() {
        quote!()
    } else {
        let (name, ty) = (&method.reply_name, &method.reply);
        quote! {
            ::nile_stl::generated::bosml::schema::Parameter {
                name: ::nile_stl::generated::Cow::Borrowed(#name),
                doc: ::nile_stl::generated::Cow::Borrowed(""),
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
            parameters: ::nile_stl::generated::Cow::Borrowed(const { &[#(#parameters),*] }),
            reply: ::nile_stl::generated::Cow::Borrowed(const { &[#reply] }),
        }
    }
}

fn parameter(parameter: &Parameter) -> TokenStream {
    let Parameter { name, ty, range, encrypted } = parameter;
    let name = plain_name(name);
    let mut ty = ty.clone();
    syn::visit_mut::VisitMut::visit_type_mut(&mut Static, &mut ty);
    let range = match range {
        None => quote!(::core::option::Option::None),
        Some((least, most)) => quote! {
            ::core::option::Option::Some(::nile_stl::generated::bosml::schema::Range {
                least: #least,
                most: #most,
            })
        },
    };
    quote! {
        ::nile_stl::generated::bosml::schema::Parameter {
            name: ::nile_stl::generated::Cow::Borrowed(#name),
            doc: ::nile_stl::generated::Cow::Borrowed(""),
            ty: <#ty as ::nile_stl::generated::bosml::Typed>::TYPE,
            range: #range,
            encoded: true,
            encrypted: #encrypted,
        }
    }
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
