//! Records of messages, as structs.

// What the macro's structs name, so that the crates that use it need not.
#[doc(hidden)]
pub use alloc::borrow::Cow;

/// Declares structs that are records of the message language, field by field, with their fields for
/// the text form as `FIELDS`. For crates beneath `nile-stl`, whose derive does the same.
#[macro_export]
macro_rules! records {
    ($(
        $(#[$about:meta])*
        pub struct $name:ident { $($(#[$doc:meta])* pub $field:ident: $ty:ty,)* }
    )*) => { $(
        $(#[$about])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $name { $($(#[$doc])* pub $field: $ty,)* }

        impl $name {
            /// Its fields, for the text form.
            pub const FIELDS: &'static [$crate::schema::Parameter<'static>] =
                &[$($crate::schema::Parameter {
                name: $crate::records::Cow::Borrowed(stringify!($field)),
                doc: $crate::records::Cow::Borrowed(""),
                ty: <$ty as $crate::Typed>::TYPE,
                range: None,
                encoded: true,
                encrypted: false,
            }),*];
        }

        impl $crate::Typed for $name {
            const TYPE: $crate::schema::Type<'static> =
                $crate::schema::Type::Record($crate::records::Cow::Borrowed($name::FIELDS));
            const LEAST: usize = 0 $(+ <$ty as $crate::Typed>::LEAST)*;
        }

        impl $crate::Encode for $name {
            fn encode(&self, out: &mut $crate::Writer) {
                $($crate::Encode::encode(&self.$field, out);)*
            }
        }

        impl<'a> $crate::Decode<'a> for $name {
            fn decode(
                input: &mut $crate::Reader<'a>,
            ) -> Result<$name, $crate::Error> {
                Ok($name { $($field: $crate::Decode::decode(input)
                    .map_err(|error| error.within(stringify!($field)))?,)* })
            }
        }
    )* };
}
