//! `#[derive(Record)]`: a struct with named fields as a record of the message language.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, Result};

use crate::check::plain_name;

pub fn generate(item: &DeriveInput) -> Result<TokenStream> {
    let name = &item.ident;
    let fields = match &item.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => &fields.named,
            _ => return Err(Error::new(name.span(), "a record has named fields")),
        },
        _ => return Err(Error::new(name.span(), "a record is a struct")),
    };
    if !item.generics.params.is_empty() {
        return Err(Error::new(name.span(), "a record owns its fields: no parameters"));
    }
    let names: Vec<_> = fields.iter().filter_map(|field| field.ident.as_ref()).collect();
    let types: Vec<_> = fields.iter().map(|field| &field.ty).collect();
    let texts: Vec<_> = names.iter().map(|name| plain_name(name)).collect();
    if names.is_empty() {
        return Err(Error::new(name.span(), "a record has at least one field"));
    }
    Ok(quote! {
        impl ::nile_stl::generated::bosml::Typed for #name {
            const TYPE: ::nile_stl::generated::bosml::schema::Type<'static> =
                ::nile_stl::generated::bosml::schema::Type::Record(
                    ::nile_stl::generated::Cow::Borrowed(const { &[#(
                        ::nile_stl::generated::bosml::schema::Parameter {
                            name: ::nile_stl::generated::Cow::Borrowed(#texts),
                            doc: ::nile_stl::generated::Cow::Borrowed(""),
                            ty: <#types as ::nile_stl::generated::bosml::Typed>::TYPE,
                            range: ::core::option::Option::None,
                            encoded: true,
                            encrypted: false,
                        }
                    ),*] }),
                );
        }

        impl ::nile_stl::generated::bosml::Encode for #name {
            fn encode(&self, out: &mut ::nile_stl::generated::bosml::Writer) {
                #(::nile_stl::service::wire::put(&self.#names, out);)*
            }
        }

        impl<'a> ::nile_stl::generated::bosml::Decode<'a> for #name {
            fn decode(
                input: &mut ::nile_stl::generated::bosml::Reader<'a>,
            ) -> ::core::result::Result<#name, ::nile_stl::generated::bosml::Error> {
                ::core::result::Result::Ok(#name {
                    #(#names: ::nile_stl::service::wire::field(input, #texts)?),*
                })
            }
        }
    })
}
