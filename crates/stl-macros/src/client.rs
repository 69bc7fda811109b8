//! The typed client: one method for each of the service's, wherever that is.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Ident;

use crate::check::plain_name;
use crate::half::names;
use crate::input::{Method, Mode, Service};

pub fn generate(service: &Service) -> TokenStream {
    let client = format_ident!("{}Client", service.state);
    let name = &service.name;
    let halves: Vec<_> = [(Mode::Kernel, "kernel"), (Mode::User, "user")]
        .into_iter()
        .filter(|(mode, _)| service.of_mode(*mode).next().is_some())
        .map(|(mode, field)| (names(service, mode).dispatch, format_ident!("{field}")))
        .collect();
    let services: Vec<_> = halves.iter().map(|(service, _)| service).collect();
    let fields: Vec<_> = halves.iter().map(|(_, field)| field).collect();
    let first = fields[0];
    let methods = service.methods.iter().map(|it| method(it, &names(service, it.mode).interface));
    let doc = format!("Calls the service `{name}`, on this core or elsewhere.");
    quote! {
        #[doc = #doc]
        pub struct #client { #(#fields: ::nile_stl::Target<#services>),* }

        impl #client {
            /// The nearest instance. Fails with `NotFound`, or `Denied` by the rule of the layers.
            pub async fn find(stl: &::nile_stl::Stl) -> ::nile_stl::CallResult<#client> {
                ::core::result::Result::Ok(#client {
                    #(#fields: ::nile_stl::Target::find(stl, #name).await?),*
                })
            }

            /// The instance on one core. Fails with `NotFound`, or `Denied` by the rule of the
            /// layers.
            pub async fn find_at(
                stl: &::nile_stl::Stl,
                at: impl ::core::convert::Into<::nile_stl::At>,
            ) -> ::nile_stl::CallResult<#client> {
                let at = at.into();
                ::core::result::Result::Ok(#client {
                    #(#fields: ::nile_stl::Target::find_at(stl, at, #name).await?),*
                })
            }

            /// The instance at a place that is known. If it is not there, calls are `Dead`.
            pub fn at(stl: &::nile_stl::Stl, place: ::nile_stl::Place) -> #client {
                #client { #(#fields: ::nile_stl::Target::at(stl, #name, place)),* }
            }

            /// The core that the instance is on, if it is not in the kernel beneath a package.
            pub fn core(&self) -> ::core::option::Option<::nile_stl::generated::CoreId> {
                self.#first.core()
            }

            /// Where the instance is, if it is not in the kernel beneath a package.
            pub fn place(&self) -> ::core::option::Option<::nile_stl::Place> {
                self.#first.place()
            }

            #(#methods)*
        }

        impl ::nile_stl::Client for #client {
            const REGISTRATION: &'static ::nile_stl::Registration = &REGISTRATION;

            fn at(stl: &::nile_stl::Stl, place: ::nile_stl::Place) -> #client {
                #client::at(stl, place)
            }
        }
    }
}

fn method(method: &Method, interface: &Ident) -> TokenStream {
    let Method { name, doc, reply, number, .. } = method;
    let field = match method.mode {
        Mode::Kernel => format_ident!("kernel"),
        Mode::User => format_ident!("user"),
    };
    let parameters = method.parameters.iter().map(|parameter| {
        let (name, ty) = (&parameter.name, &parameter.ty);
        quote!(#name: #ty)
    });
    let given: Vec<_> = method.parameters.iter().map(|parameter| &parameter.name).collect();
    let waits = method.is_async.then(|| quote!(.await));
    let text = plain_name(name);
    let caller = if method.takes_caller {
        quote!(self.#field.caller())
    } else {
        // Nobody looks at it, and finding out the time is not for nothing.
        quote!(::nile_stl::Caller::UNKNOWN)
    };
    let remote = if method.gives_nothing() {
        quote! {
            let ::nile_stl::generated::Nothing = self.#field.call(__name, __encode).await?;
            ::core::result::Result::Ok(())
        }
    } else {
        quote!(self.#field.call(__name, __encode).await)
    };
    quote! {
        #[doc = #doc]
        #[inline]
        pub async fn #name<'a>(
            &'a self, #(#parameters),*
        ) -> ::nile_stl::CallResult<#reply> {
            if let ::core::option::Option::Some(__service) = self.#field.here()? {
                let __caller = #caller;
                return #interface::#name(&*__service.0, &__caller, #(#given),*) #waits;
            }
            let __name = (::nile_stl::MethodNumber(#number), #text);
            let __encode = |__out: &mut ::nile_stl::generated::bosml::Writer| {
                let _ = &__out;
                #(::nile_stl::service::wire::put(&#given, __out);)*
            };
            #remote
        }
    }
}
