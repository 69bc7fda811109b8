//! The typed client: one method for each of the service's, wherever that is.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Ident;

use crate::check::plain_name;
use crate::half::{call, checks};
use crate::input::{Interface, methods_of};
use crate::method::{Method, Mode};

pub fn generate(interface: &Interface) -> TokenStream {
    let Interface { visibility, name, ident, .. } = interface;
    let client = format_ident!("{ident}Client");
    let fields: Vec<_> = interface.modes().map(field).collect();
    let traits = interface.modes().map(|mode| methods_of(ident, mode));
    let first = &fields[0];
    let methods = interface.methods.iter().map(|it| method(it, &methods_of(ident, it.mode)));
    let doc = format!("Calls the service `{name}`, on this core or elsewhere.");
    quote! {
        #[doc = #doc]
        #visibility struct #client { #(#fields: ::nile_stl::Target<dyn #traits>),* }

        impl #client {
            /// The nearest instance. Fails with `NotFound`, or `Denied` by the rule of the layers.
            pub async fn find(stl: &::nile_stl::Stl) -> ::nile_stl::CallResult<#client> {
                ::core::result::Result::Ok(#client {
                    #(#fields: ::nile_stl::Target::find(stl).await?),*
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
                    #(#fields: ::nile_stl::Target::find_at(stl, at).await?),*
                })
            }

            /// The instance at a place that is known. If it is not there, calls are `Dead`.
            pub fn at(stl: &::nile_stl::Stl, place: ::nile_stl::Place) -> #client {
                #client { #(#fields: ::nile_stl::Target::at(stl, place)),* }
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
            const INTERFACE: &'static ::nile_stl::Interface = &INTERFACE;

            fn at(stl: &::nile_stl::Stl, place: ::nile_stl::Place) -> #client {
                #client::at(stl, place)
            }
        }
    }
}

fn field(mode: Mode) -> Ident {
    match mode {
        Mode::Kernel => format_ident!("kernel"),
        Mode::User => format_ident!("user"),
    }
}

fn method(method: &Method, methods_of: &Ident) -> TokenStream {
    let Method { name, doc, reply, number, .. } = method;
    let field = field(method.mode);
    let parameters = method.parameters.iter().map(|parameter| {
        let (name, ty) = (&parameter.name, &parameter.ty);
        quote!(#name: #ty)
    });
    let given: Vec<_> = method.parameters.iter().map(|parameter| &parameter.name).collect();
    let text = plain_name(name);
    let (checks, call) = (checks(method), call(methods_of, method));
    // Nobody else looks at it, and finding out the time is not for nothing.
    let caller = method.caller.is_some().then(|| quote!(let __caller = &self.#field.caller();));
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
            if let ::core::option::Option::Some(__methods) = self.#field.here()? {
                #checks
                #caller
                return #call;
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
