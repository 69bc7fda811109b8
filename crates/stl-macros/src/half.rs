//! The halves of a service: for each its methods on its state, its typed interface, and its
//! dispatch by number.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Ident;

use crate::check::plain_name;
use crate::input::{Failure, Method, Mode, Service};

/// What the parts of a half are called.
pub struct Names {
    /// The struct with its state.
    pub state: Ident,
    /// Its typed interface.
    pub interface: Ident,
    /// Its dispatch by number, which holds the state.
    pub dispatch: Ident,
    /// What makes it.
    pub make: Ident,
}

pub fn names(service: &Service, mode: Mode) -> Names {
    let state = &service.state;
    match mode {
        Mode::Kernel => Names {
            state: state.clone(),
            interface: format_ident!("{state}Kernel"),
            dispatch: format_ident!("{state}KernelDispatch"),
            make: format_ident!("make_kernel_half"),
        },
        Mode::User => Names {
            state: service.user_state.clone(),
            interface: format_ident!("{state}User"),
            dispatch: format_ident!("{state}UserDispatch"),
            make: format_ident!("make_user_half"),
        },
    }
}

pub fn generate(service: &Service) -> TokenStream {
    let block = &service.block;
    let halves = [Mode::Kernel, Mode::User]
        .map(|mode| service.of_mode(mode).next().map(|_| half(service, mode)).unwrap_or_default());
    quote! { #block #(#halves)* }
}

fn half(service: &Service, mode: Mode) -> TokenStream {
    let Names { state, interface, dispatch, make } = names(service, mode);
    let methods = service.of_mode(mode).map(|method| &method.item);
    let declared = service.of_mode(mode).map(|method| {
        let signature = signature(method);
        let doc = &method.doc;
        quote!(#[doc = #doc] #signature;)
    });
    let defined = service.of_mode(mode).map(|method| define(&state, method));
    let arms = service.methods.iter().map(|method| arm(&interface, mode, method));
    let asks_caller = service.of_mode(mode).any(|method| method.takes_caller);
    let doc = match mode {
        Mode::Kernel => "The kernel half's methods, as a caller on the same core calls them.",
        Mode::User => "The user half's methods, as a caller in the same package calls them.",
    };
    quote! {
        impl #state { #(#methods)* }

        #[doc = #doc]
        pub trait #interface { #(#declared)* }

        impl #interface for #state { #(#defined)* }

        struct #dispatch(::nile_stl::generated::Rc<#state>);

        impl ::nile_stl::Service for #dispatch {
            fn dispatch(
                &self,
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

        fn #make(stl: &::nile_stl::Stl) -> ::nile_stl::Half {
            let state = ::nile_stl::generated::Rc::new(<#state as ::nile_stl::Start>::start(stl));
            let service = ::nile_stl::generated::Rc::new(#dispatch(state));
            ::nile_stl::Half { service, asks_caller: #asks_caller }
        }
    }
}

/// A method of the interface: always with the caller, and giving a `CallResult`.
fn signature(method: &Method) -> TokenStream {
    let Method { name, reply, .. } = method;
    let parameters = method.parameters.iter().map(|parameter| {
        let (name, ty) = (&parameter.name, &parameter.ty);
        quote!(#name: #ty)
    });
    let result = quote!(::nile_stl::CallResult<#reply>);
    let result =
        if method.is_async { quote!(::nile_stl::LocalFuture<'a, #result>) } else { result };
    quote! {
        fn #name<'a>(
            &'a self, __caller: &'a ::nile_stl::Caller, #(#parameters),*
        ) -> #result
    }
}

/// The method of the interface: checks the bounds and calls the method itself.
fn define(state: &Ident, method: &Method) -> TokenStream {
    let name = &method.name;
    let signature = signature(method);
    let checks = method.parameters.iter().filter_map(|parameter| {
        let (least, most) = parameter.range?;
        let (own, text) = (&parameter.name, plain_name(&parameter.name));
        Some(quote! {
            ::nile_stl::generated::check_range(#text, &#own, #least, #most)?;
        })
    });
    let caller = method.takes_caller.then(|| quote!(__caller,));
    let given = method.parameters.iter().map(|parameter| &parameter.name);
    let waits = method.is_async.then(|| quote!(.await));
    let call = quote!(#state::#name(self, #caller #(#given),*) #waits);
    let call = match method.failure {
        Failure::Never => quote!(::core::result::Result::Ok(#call)),
        Failure::CallError => call,
        Failure::Other => quote! {
            ::core::result::Result::map_err(#call, ::nile_stl::CallError::from)
        },
    };
    let body = quote!(#(#checks)* #call);
    let body = if method.is_async {
        quote!(::nile_stl::generated::Box::pin(async move { #body }))
    } else {
        body
    };
    let unused = (!method.takes_caller).then(|| quote!(let _ = __caller;));
    quote!(#[inline] #signature { #unused #body })
}

/// A method's arm of the dispatch.
fn arm(interface: &Ident, mode: Mode, method: &Method) -> TokenStream {
    let (name, number) = (&method.name, method.number);
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
    let given = method.parameters.iter().map(|parameter| &parameter.name);
    let waits = method.is_async.then(|| quote!(.await));
    let reply = if method.gives_nothing() {
        quote! {
            let () = __reply;
            ::core::result::Result::Ok(::nile_stl::generated::Vec::new())
        }
    } else {
        quote!(::nile_stl::service::wire::reply(&__reply))
    };
    let body = quote! {
        let mut __input = ::nile_stl::generated::bosml::Reader::new(__arguments);
        #(#decoded)*
        ::nile_stl::service::wire::no_more(&__input)?;
        let __reply = #interface::#name(__state, __caller, #(#given),*) #waits?;
        #reply
    };
    if method.is_async {
        quote! {
            #number => {
                let (__state, __caller, __arguments) =
                    (self.0.clone(), *__caller, ::nile_stl::generated::Vec::from(__arguments));
                ::nile_stl::Dispatched::Later(::nile_stl::generated::Box::pin(async move {
                    let (__state, __caller, __arguments) =
                        (&*__state, &__caller, &*__arguments);
                    #body
                }))
            }
        }
    } else {
        quote! {
            #number => {
                let __state = &*self.0;
                let work = || -> ::nile_stl::CallResult<::nile_stl::generated::Vec<u8>> { #body };
                ::nile_stl::Dispatched::Done(work())
            }
        }
    }
}
