//! `#[derive(Record)]`: structs and enums as values of the message language.
//!
//! A struct with named fields is a record. An enum is one of its cases, each without a value, with
//! one, or with a record. A struct around one value is that value.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Data, DeriveInput, Error, Expr, ExprRange, Field, Fields, Ident, Result};
use syn::{Path, RangeLimits, Variant, parse_quote};

use crate::check::plain_name;
use crate::input::snake_case;

pub fn generate(item: &DeriveInput) -> Result<TokenStream> {
    let name = &item.ident;
    if !item.generics.params.is_empty() {
        return Err(Error::new(name.span(), "a record owns its fields: no parameters"));
    }
    let bosml = bosml(&item.attrs)?;
    let Parts { preamble, ty, least, encode, decode } = match &item.data {
        Data::Struct(data) => of_struct(name, &data.fields, &bosml)?,
        Data::Enum(data) => of_enum(name, data.variants.iter().collect(), &bosml)?,
        Data::Union(_) => return Err(Error::new(name.span(), "a record is a struct or an enum")),
    };
    Ok(quote! {
        const _: () = {
            #preamble

            impl #bosml::Typed for #name {
                const TYPE: #bosml::schema::Type<'static> = #ty;
                const LEAST: usize = #least;
            }

            impl #bosml::Encode for #name {
                fn encode(&self, out: &mut #bosml::Writer) {
                    #encode
                }
            }

            impl<'a> #bosml::Decode<'a> for #name {
                fn decode(
                    input: &mut #bosml::Reader<'a>,
                ) -> ::core::result::Result<#name, #bosml::Error> {
                    #decode
                }
            }
        };
    })
}

/// What differs between structs and enums.
struct Parts {
    /// Before the implementations.
    preamble: TokenStream,
    ty: TokenStream,
    least: TokenStream,
    encode: TokenStream,
    decode: TokenStream,
}

/// Where `nile_bosml` is: in what every service has, unless `#[record(crate = ...)]` says another
/// path.
fn bosml(attributes: &[Attribute]) -> Result<Path> {
    let mut path: Path = parse_quote!(::nile_stl::generated::bosml);
    for attribute in attributes.iter().filter(|it| it.path().is_ident("record")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("known here: crate = path"));
            }
            path = meta.value()?.call(Path::parse_mod_style)?;
            Ok(())
        })?;
    }
    Ok(path)
}

fn of_struct(name: &Ident, fields: &Fields, bosml: &Path) -> Result<Parts> {
    match fields {
        Fields::Named(fields) if !fields.named.is_empty() => {
            let fields = Named::understand(fields.named.iter(), bosml)?;
            let Named { names, least, ty, .. } = &fields;
            let (put, take) = (fields.put(quote!(self.), bosml), fields.take());
            let encode = quote!(#(#put)*);
            let decode = quote!(::core::result::Result::Ok(#name { #(#names: #take),* }));
            let (ty, least) = (ty.clone(), least.clone());
            Ok(Parts { preamble: quote!(), ty, least, encode, decode })
        }
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
            let ty = &fields.unnamed[0].ty;
            Ok(Parts {
                preamble: quote!(),
                ty: quote!(<#ty as #bosml::Typed>::TYPE),
                least: quote!(<#ty as #bosml::Typed>::LEAST),
                encode: quote!(#bosml::Encode::encode(&self.0, out)),
                decode: quote!(#bosml::Decode::decode(input).map(#name)),
            })
        }
        _ => {
            let why = "a record has at least one field, and names for them; \
                       a struct around one value is that value";
            Err(Error::new(name.span(), why))
        }
    }
}

fn of_enum(name: &Ident, variants: Vec<&Variant>, bosml: &Path) -> Result<Parts> {
    if !(1..=256).contains(&variants.len()) {
        return Err(Error::new(name.span(), "there are 1 to 256 cases to choose from"));
    }
    let (mut cases, mut put, mut take) = (Vec::new(), Vec::new(), Vec::new());
    let mut texts = Vec::new();
    for (number, variant) in variants.iter().enumerate() {
        let (number, is_last) = (number as u8, number + 1 == variants.len());
        let (case, text) = (&variant.ident, snake_case(&plain_name(&variant.ident)));
        texts.push(text.clone());
        // Whoever calls it has looked whether there is one of this number.
        let pattern = if is_last { quote!(_) } else { quote!(#number) };
        match &variant.fields {
            Fields::Unit => {
                cases.push(parameter(&text, &quote!(#bosml::schema::Type::NOTHING), None, bosml));
                put.push(quote!(#name::#case => out.put(&[#number])));
                take.push(quote!(#pattern => #name::#case));
            }
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                let field = Value::understand(&fields.unnamed[0], bosml)?;
                cases.push(parameter(&text, &field.ty, field.range.as_ref(), bosml));
                put.push(quote!(#name::#case(value) => {
                    out.put(&[#number]);
                    #bosml::records::put(value, out);
                }));
                let value = match &field.range {
                    None => quote!(#bosml::Decode::decode(input)?),
                    Some((least, most)) => {
                        quote!(#bosml::records::in_range(input, #least, #most)?)
                    }
                };
                take.push(quote!(#pattern => #name::#case(#value)));
            }
            Fields::Named(fields) if !fields.named.is_empty() => {
                let fields = Named::understand(fields.named.iter(), bosml)?;
                cases.push(parameter(&text, &fields.ty, None, bosml));
                let names = &fields.names;
                let (put_fields, take_fields) = (fields.put(quote!(), bosml), fields.take());
                put.push(quote!(#name::#case { #(#names),* } => {
                    out.put(&[#number]);
                    #(#put_fields)*
                }));
                take.push(quote!(#pattern => #name::#case { #(#names: #take_fields),* }));
            }
            _ => {
                let why = "a case has no value, one, or one with named fields";
                return Err(Error::new(case.span(), why));
            }
        }
    }
    Ok(Parts {
        preamble: quote!(const CASES: &[&str] = &[#(#texts),*];),
        ty: quote! {
            #bosml::schema::Type::OneOf(
                #bosml::records::Cow::Borrowed(const { &[#(#cases),*] }),
            )
        },
        least: quote!(1),
        encode: quote!(match self { #(#put),* }),
        decode: quote! {
            #bosml::records::case(input, CASES, |number, input| {
                ::core::result::Result::Ok(match number { #(#take),* })
            })
        },
    })
}

/// Named fields.
struct Named {
    names: Vec<Ident>,
    texts: Vec<String>,
    values: Vec<Value>,
    bosml: Path,
    ty: TokenStream,
    least: TokenStream,
}

impl Named {
    fn understand<'f>(fields: impl Iterator<Item = &'f Field>, bosml: &Path) -> Result<Named> {
        let (mut names, mut texts, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let (mut parameters, mut least) = (Vec::new(), quote!(0));
        for field in fields {
            let Some(name) = &field.ident else { continue };
            let (text, value) = (plain_name(name), Value::understand(field, bosml)?);
            parameters.push(parameter(&text, &value.ty, value.range.as_ref(), bosml));
            let ty = &field.ty;
            least.extend(quote!(+ <#ty as #bosml::Typed>::LEAST));
            names.push(name.clone());
            texts.push(text);
            values.push(value);
        }
        let ty = quote! {
            #bosml::schema::Type::Record(
                #bosml::records::Cow::Borrowed(const { &[#(#parameters),*] }),
            )
        };
        Ok(Named { names, texts, values, bosml: bosml.clone(), ty, least })
    }

    /// Puts each; `of` stands before its name.
    fn put(&self, of: TokenStream, bosml: &Path) -> Vec<TokenStream> {
        let reference = if of.is_empty() { quote!() } else { quote!(&) };
        let put = |name| quote!(#bosml::records::put(#reference #of #name, out););
        self.names.iter().map(put).collect()
    }

    /// Takes each.
    fn take(&self) -> Vec<TokenStream> {
        let bosml = &self.bosml;
        let take = |(text, value): (&String, &Value)| match &value.range {
            None => quote!(#bosml::records::field(input, #text)?),
            Some((least, most)) => {
                quote!(#bosml::records::ranged(input, #text, #least, #most)?)
            }
        };
        self.texts.iter().zip(&self.values).map(take).collect()
    }
}

/// What a field or a case carries.
struct Value {
    ty: TokenStream,
    range: Option<(TokenStream, TokenStream)>,
}

impl Value {
    fn understand(field: &Field, bosml: &Path) -> Result<Value> {
        let ty = &field.ty;
        let mut ranges = field.attrs.iter().filter(|it| it.path().is_ident("range"));
        let range = ranges.next().map(|it| bounds(&it.parse_args()?)).transpose()?;
        Ok(Value { ty: quote!(<#ty as #bosml::Typed>::TYPE), range })
    }
}

/// The bounds of a range as in `1..=MOST`.
fn bounds(range: &ExprRange) -> Result<(TokenStream, TokenStream)> {
    let bound = |expr: &Option<Box<Expr>>| match (expr, range.limits) {
        (Some(expr), RangeLimits::Closed(_)) => Ok(quote!((#expr) as i128)),
        _ => Err(Error::new_spanned(range, "a range has two bounds, as in 0..=9")),
    };
    Ok((bound(&range.start)?, bound(&range.end)?))
}

fn parameter(
    name: &str,
    ty: &TokenStream,
    range: Option<&(TokenStream, TokenStream)>,
    bosml: &Path,
) -> TokenStream {
    let plain = quote!(#bosml::schema::Parameter::plain(#name, #ty));
    match range {
        None => plain,
        Some((least, most)) => quote!(#plain.within(#least, #most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_form_is_told_in_its_own_words() {
        let derive = |item: &str| generate(&syn::parse_str(item).expect("it is Rust"));
        for fine in [
            "struct One(u64);",
            "struct Two { a: u8, #[range(0..=MOST)] b: u32 }",
            "#[record(crate = nile_bosml)] enum Some { A, B(u8), C { d: u8 } }",
        ] {
            assert!(derive(fine).is_ok(), "{fine}");
        }
        for (told, item) in [
            ("at least one field", "struct None;"),
            ("at least one field", "struct None {}"),
            ("names for them", "struct Two(u8, u8);"),
            ("named fields", "enum Bad { A, B(u8, u8) }"),
            ("named fields", "enum Bad { A {} }"),
            ("1 to 256", "enum Never {}"),
            ("a struct or an enum", "union Both { a: u8, b: i8 }"),
            ("no parameters", "enum Any<T> { A(T) }"),
            ("crate = path", "#[record(path = here)] struct One(u64);"),
            ("two bounds", "struct One { #[range(1..)] a: u8 }"),
            ("two bounds", "enum One { A(#[range(1..9)] u8) }"),
        ] {
            let why = derive(item).expect_err(item).to_string();
            assert!(why.contains(told), "{item}: {why}");
        }
        let many: String = (0..257).map(|at| format!("C{at},")).collect();
        assert!(derive(&format!("enum Many {{ {many} }}")).is_err());
    }
}
