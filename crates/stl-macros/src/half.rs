//! The halves of a service: the methods of each as a trait that objects can have, which an
//! implementation implements, and their dispatch by number.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Ident;

use crate::check::plain_name;
use crate::input::{Half, Implementation, Interface, methods_of};
use crate::method::{Failure, Method, Mode};

/// What callers link.
pub fn declare(interface: &Interface) -> TokenStream {
    let halves = interface.modes().map(|mode| declare_half(interface, mode));
    quote!(#(#halves)*)
}

fn declare_half(interface: &Interface, mode: Mode) -> TokenStream {
    let (visibility, methods_of) = (&interface.visibility, methods_of(&interface.ident, mode));
    let declared = interface.of_mode(mode).map(|method| {
        let signature = signature(method);
        let doc = &method.doc;
        quote!(#[doc = #doc] #signature;)
    });
    let arms = interface.methods.iter().map(|method| arm(&methods_of, mode, method));
    let asks_caller = interface.of_mode(mode).any(|method| method.caller.is_some());
    let doc = match mode {
        Mode::Kernel => "The kernel half's methods, as a caller on the same core calls them.",
        Mode::User => "The user half's methods, as a caller in the same package calls them.",
    };
    quote! {
        #[doc = #doc]
        #visibility trait #methods_of { #(#declared)* }

        impl ::nile_stl::Methods for dyn #methods_of {
            const INTERFACE: &'static ::nile_stl::Interface = &INTERFACE;
            const ASKS_CALLER: bool = #asks_caller;

            fn dispatch(
                __methods: &::nile_stl::generated::Rc<Self>,
                __caller: &::nile_stl::Caller,
                __method: ::nile_stl::MethodNumber,
                __arguments: &[u8],
            ) -> ::nile_stl::Dispatched {
                match __method.0 {
                    #(#arms)*
                    _ => ::nile_stl::Dispatched::Done(::core::result::Result::Err(
                        ::nile_stl::CallError::no_method(&SCHEMA, __method),
                    )),
                }
            }
        }
    }
}

/// What an implementation becomes: its methods as they were written, and the traits by them.
pub fn implement(implementation: &Implementation) -> TokenStream {
    let rest = &implementation.rest;
    let halves = implementation.halves.iter().map(|half| {
        let Half { state, methods_of, methods, items } = half;
        let defined = methods.iter().map(|method| define(state, method));
        quote! {
            impl #state { #(#items)* }

            impl #methods_of for #state { #(#defined)* }
        }
    });
    quote!(#rest #(#halves)*)
}

/// A method of the trait: as it was written, but of one type for all futures.
fn signature(method: &Method) -> TokenStream {
    let Method { name, reply, output, .. } = method;
    let parameters = method.parameters.iter().map(|parameter| {
        let (name, ty) = (&parameter.name, &parameter.ty);
        quote!(#name: #ty)
    });
    let caller = method.caller.iter().map(|ty| quote!(__caller: #ty,));
    let result = match method.failure {
        Failure::Never | Failure::CallError => quote!(#output),
        Failure::Other => quote!(::nile_stl::CallResult<#reply>),
    };
    let result =
        if method.is_async { quote!(::nile_stl::LocalFuture<'a, #result>) } else { result };
    quote!(fn #name<'a>(&'a self, #(#caller)* #(#parameters),*) -> #result)
}

/// The method of the trait by the one that was written.
fn define(state: &Ident, method: &Method) -> TokenStream {
    let name = &method.name;
    let signature = signature(method);
    let caller = method.caller.is_some().then(|| quote!(__caller,));
    let given = method.parameters.iter().map(|parameter| &parameter.name);
    let call = quote!(#state::#name(self, #caller #(#given),*));
    let body = match (method.failure, method.is_async) {
        (Failure::Never | Failure::CallError, false) => call,
        (Failure::Never | Failure::CallError, true) => {
            quote!(::nile_stl::generated::Box::pin(#call))
        }
        (Failure::Other, false) => quote! {
            ::core::result::Result::map_err(#call, ::nile_stl::CallError::from)
        },
        (Failure::Other, true) => quote! {
            ::nile_stl::generated::Box::pin(async move {
                ::core::result::Result::map_err(#call.await, ::nile_stl::CallError::from)
            })
        },
    };
    quote!(#[inline] #signature { #body })
}

/// Sees to it that arguments are within their bounds.
pub fn checks(method: &Method) -> TokenStream {
    let checks = method.parameters.iter().filter_map(|parameter| {
        let (least, most) = parameter.range?;
        let (own, text) = (&parameter.name, plain_name(&parameter.name));
        Some(quote! {
            ::nile_stl::generated::check_range(#text, &#own, #least, #most)?;
        })
    });
    quote!(#(#checks)*)
}

/// The end of a call of the trait's method, as a `CallResult`.
pub fn call(methods_of: &Ident, method: &Method) -> TokenStream {
    let name = &method.name;
    let caller = method.caller.is_some().then(|| quote!(__caller,));
    let given = method.parameters.iter().map(|parameter| &parameter.name);
    let waits = method.is_async.then(|| quote!(.await));
    let call = quote!(#methods_of::#name(__methods, #caller #(#given),*) #waits);
    match method.failure {
        Failure::Never => quote!(::core::result::Result::Ok(#call)),
        Failure::CallError | Failure::Other => call,
    }
}

/// A method's arm of the dispatch.
fn arm(methods_of: &Ident, mode: Mode, method: &Method) -> TokenStream {
    let number = method.number;
    if method.mode != mode {
        return quote! {
            #number => ::nile_stl::Dispatched::Done(::core::result::Result::Err(
                ::nile_stl::CallError::other_half(&SCHEMA, __method),
            )),
        };
    }
    let decoded = method.parameters.iter().map(|parameter| {
        let (own, text) = (&parameter.name, plain_name(&parameter.name));
        quote! {
            let #own = ::nile_stl::service::wire::argument(&mut __input, #text)?;
        }
    });
    let reply = if method.gives_nothing() {
        quote! {
            let () = __reply?;
            ::core::result::Result::Ok(::nile_stl::generated::Vec::new())
        }
    } else {
        quote!(::nile_stl::service::wire::reply(&__reply?))
    };
    let ty = &method.reply;
    let (checks, call) = (checks(method), call(methods_of, method));
    let body = quote! {
        let mut __input = ::nile_stl::generated::bosml::Reader::new(__arguments);
        #(#decoded)*
        ::nile_stl::service::wire::no_more(&__input)?;
        #checks
        let __reply: ::nile_stl::CallResult<#ty> = #call;
        #reply
    };
    // One that does not ask who calls leaves that alone.
    let caller = method.caller.is_some().then(|| quote!(let __caller = *__caller;));
    let borrowed = method.caller.is_some().then(|| quote!(let __caller = &__caller;));
    if method.is_async {
        quote! {
            #number => {
                let __methods = __methods.clone();
                let __arguments = ::nile_stl::generated::Vec::from(__arguments);
                #caller
                ::nile_stl::Dispatched::Later(::nile_stl::generated::Box::pin(async move {
                    let (__methods, __arguments) = (&*__methods, &*__arguments);
                    #borrowed
                    #body
                }))
            }
        }
    } else {
        quote! {
            #number => {
                let __methods = &**__methods;
                let work = || -> ::nile_stl::CallResult<::nile_stl::generated::Vec<u8>> { #body };
                ::nile_stl::Dispatched::Done(work())
            }
        }
    }
}
