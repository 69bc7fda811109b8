//! Messages in both forms, and what services say of themselves.

use std::sync::LazyLock;

use nile_bosml::schema::{Method, Service};
use nile_bosml::value::values;
use nile_bosml::{
    Error, ErrorKind, MAX_MESSAGE, binary_to_text, check_binary, discovery, masked_text,
    text_to_binary, values_to_binary,
};

/// A service with every type, alone, in lists and in records, with ranges and without.
const SERVICE: &str = include_str!("bosml.xml");

static METHODS: LazyLock<Service<'static>> =
    LazyLock::new(|| discovery::parse(SERVICE).expect("a discovery document").into_owned());

/// The method that the first byte chooses, and the rest.
fn chosen(bytes: &[u8]) -> Option<(&'static Method<'static>, &[u8])> {
    let (choice, rest) = bytes.split_first()?;
    let methods = &METHODS.methods;
    Some((&methods[usize::from(*choice) % methods.len()], rest))
}

/// The bytes as a request in the text form. Accepted: the method would be called.
pub fn bosml_text(bytes: &[u8]) -> bool {
    let Some((method, bytes)) = chosen(bytes) else { return false };
    let Ok(text) = str::from_utf8(bytes) else { return false };
    let (parameters, name) = (&method.parameters, &method.name);
    let checked = method.check_text(text);
    match text_to_binary(parameters, name, text) {
        Ok(binary) => {
            assert!(checked.is_ok() && binary.len() <= text.len());
            agree(method, &binary);
            true
        }
        Err(error) => {
            check_error(&error, text);
            assert_eq!(checked, Err(error));
            false
        }
    }
}

/// The bytes as a request in the binary form. Accepted: the method would be called.
pub fn bosml_binary(bytes: &[u8]) -> bool {
    let Some((method, bytes)) = chosen(bytes) else { return false };
    let checked = check_binary(&method.parameters, bytes);
    match values(&method.parameters, bytes) {
        Ok(values) => {
            assert_eq!(checked, Ok(()));
            assert_eq!(values_to_binary(&method.parameters, &values).as_deref(), Ok(bytes));
            agree(method, bytes);
            true
        }
        Err(error) => {
            assert!(error.offset() <= bytes.len() && error.line().is_none());
            assert_eq!(checked, Err(error));
            false
        }
    }
}

/// Both forms of a valid request say the same.
fn agree(method: &Method<'_>, binary: &[u8]) {
    let (parameters, name) = (&method.parameters, &method.name);
    assert_eq!(check_binary(parameters, binary), Ok(()));
    assert!(masked_text(parameters, name, binary).is_ok());
    let text = match binary_to_text(parameters, name, binary) {
        Ok(text) => text,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::NoText { .. }), "{error}");
            return;
        }
    };
    if text.len() <= MAX_MESSAGE {
        // Compared as text: there are many numbers that are none, and one text for them.
        let again = text_to_binary(parameters, name, &text).expect("it was written from values");
        assert_eq!(again.len(), binary.len());
        assert_eq!(binary_to_text(parameters, name, &again).as_ref(), Ok(&text));
    }
}

/// The bytes as a discovery document. Accepted: the service can be called by it.
pub fn bosml_schema(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else { return false };
    match discovery::parse(text) {
        Ok(service) => {
            assert_eq!(service.check(), Ok(()));
            let document = discovery::to_text(&service);
            if document.len() <= MAX_MESSAGE {
                let again = discovery::parse(&document).expect("it was written from a service");
                assert_eq!(again.into_owned(), service.into_owned());
            }
            true
        }
        Err(error) => {
            check_error(&error, text);
            false
        }
    }
}

/// An error is about one place of the text.
fn check_error(error: &Error, text: &str) {
    assert!(error.offset() <= text.len().max(MAX_MESSAGE), "{error}");
    assert!(error.line().is_some() || error.kind() == &ErrorKind::TooLarge, "{error}");
    assert!(!error.to_string().is_empty());
}
