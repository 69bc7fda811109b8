//! Writing discovery documents.

use alloc::string::{String, ToString};
use core::fmt::Display;
use core::fmt::Write;

use crate::schema::{Method, Parameter, Range, Service, Type};
use crate::text::escape_lossy;

/// The discovery document of a service. It is well-formed, and [`parse`](super::parse) gives the
/// same service, if [`Service::check`] has no complaint.
pub fn to_text(service: &Service<'_>) -> String {
    let mut out = String::new();
    open(&mut out, 0, &service.name, &[], &service.doc);
    end(&mut out, service.methods.is_empty());
    for method in service.methods.iter() {
        put_method(&mut out, method);
    }
    close(&mut out, 0, &service.name, service.methods.is_empty());
    out
}

fn put_method(out: &mut String, method: &Method<'_>) {
    let callers = method.callers.to_string();
    let pure = if method.pure { "true" } else { "" };
    let said = [("mode", method.mode.name()), ("callers", &callers), ("pure", pure)];
    open(out, 1, &method.name, &said, &method.doc);
    end(out, false);
    for (name, values) in [("parameters", &method.parameters), ("reply", &method.reply)] {
        open(out, 2, name, &[], "");
        end(out, values.is_empty());
        for value in values.iter() {
            open(out, 3, &value.name, &[], &value.doc);
            out.push('>');
            put_parameter(out, value);
            line(out, "</", &value.name);
        }
        close(out, 2, name, values.is_empty());
    }
    close(out, 1, &method.name, false);
}

fn put_parameter(out: &mut String, parameter: &Parameter<'_>) {
    put_type(out, &parameter.ty);
    if let Some(size) = parameter.size() {
        leaf(out, "size", size);
    }
    leaf(out, "encoded", parameter.encoded);
    leaf(out, "encrypted", parameter.encrypted);
    if let Some(Range { least, most }) = parameter.range {
        leaf(out, "least", least);
        leaf(out, "most", most);
    }
}

fn put_type(out: &mut String, ty: &Type<'_>) {
    leaf(out, "type", ty.name());
    match ty {
        Type::List(element) => {
            out.push_str("<element>");
            put_type(out, element.get());
            out.push_str("</element>");
        }
        Type::Record(fields) => put_named(out, "fields", fields),
        Type::OneOf(cases) => put_named(out, "cases", cases),
        _ => {}
    }
}

fn put_named(out: &mut String, name: &str, all: &[Parameter<'_>]) {
    for part in ["<", name, ">"] {
        out.push_str(part);
    }
    for it in all {
        out.push('<');
        out.push_str(&it.name);
        attribute(out, "doc", &it.doc);
        // A case about which there is nothing to say.
        if it.ty.is_nothing() && it.encoded && !it.encrypted {
            out.push_str("/>");
            continue;
        }
        out.push('>');
        put_parameter(out, it);
        for part in ["</", &it.name, ">"] {
            out.push_str(part);
        }
    }
    for part in ["</", name, ">"] {
        out.push_str(part);
    }
}

fn open(out: &mut String, depth: usize, name: &str, more: &[(&str, &str)], doc: &str) {
    indent(out, depth);
    out.push('<');
    out.push_str(name);
    for (name, value) in more {
        attribute(out, name, value);
    }
    attribute(out, "doc", doc);
}

fn attribute(out: &mut String, name: &str, value: &str) {
    if !value.is_empty() {
        for part in [" ", name, "=\""] {
            out.push_str(part);
        }
        escape_lossy(value, out);
        out.push('"');
    }
}

/// Ends a tag that opens an element; the element too, if it is empty.
fn end(out: &mut String, empty: bool) {
    out.push_str(if empty { "/>\n" } else { ">\n" });
}

fn close(out: &mut String, depth: usize, name: &str, empty: bool) {
    if !empty {
        indent(out, depth);
        line(out, "</", name);
    }
}

fn line(out: &mut String, start: &str, name: &str) {
    for part in [start, name, ">\n"] {
        out.push_str(part);
    }
}

fn indent(out: &mut String, depth: usize) {
    (0..depth).for_each(|_| out.push_str("  "));
}

fn leaf(out: &mut String, name: &str, value: impl Display) {
    write!(out, "<{name}>{value}</{name}>").expect("a string takes all that is written to it");
}
