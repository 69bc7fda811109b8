//! Calls to every method that is not for packages, with arguments that it would take: each must be
//! refused for what the caller is, before anybody looks at what it asks.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use nile_abi::{CoreId, NodeId, Status};
use nile_bosml::schema::{CallerKind, Method, Mode, Parameter, Range, Type};
use nile_bosml::{Buffer, Core, Value, discovery, values_to_binary};
use nile_stl::Stl;

/// Attacks the services of these names. How many methods have refused; none, if one did not.
pub async fn refused(stl: &Stl, names: &str) -> Option<u64> {
    let mut count = 0;
    for name in names.split(',') {
        let document = match stl.discover(name).await {
            Ok(document) => document,
            // Nor does one of a layer beneath say anything to packages.
            Err(error) if error.status == Status::Denied => {
                let error = stl.invoke(name, "list", &[]).await.err()?;
                (error.status == Status::Denied).then_some(())?;
                continue;
            }
            // This core has none, and knows of none.
            Err(error) if error.status == Status::NotFound => continue,
            Err(_) => return None,
        };
        let schema = discovery::parse(&document).ok()?;
        let closed =
            |it: &&Method<'_>| it.mode == Mode::Kernel && !it.callers.has(CallerKind::Package);
        for method in schema.methods.iter().filter(closed) {
            for is_least in [true, false] {
                let values: Vec<Value<'_>> =
                    method.parameters.iter().map(|it| value(it, is_least)).collect();
                let arguments = values_to_binary(&method.parameters, &values).ok()?;
                let error = stl.invoke(name, &method.name, &arguments).await.err()?;
                let is_told = error.message.contains("not for a package");
                (error.status == Status::Denied && is_told).then_some(())?;
            }
            count += 1;
        }
    }
    Some(count)
}

/// A value that a parameter takes: about the least, or the most.
fn value(it: &Parameter<'_>, is_least: bool) -> Value<'static> {
    of_type(&it.ty, it.range, is_least)
}

fn of_type(ty: &Type<'_>, range: Option<Range>, is_least: bool) -> Value<'static> {
    let bound = range.map(|range| if is_least { range.least } else { range.most });
    let number = |most: u64| match bound {
        Some(bound) => u64::try_from(bound).unwrap_or(0),
        None if is_least => 0,
        None => most,
    };
    // As long as a range says, but not long.
    let length = bound.map_or(1, |bound| usize::try_from(bound).unwrap_or(0).min(100));
    match ty {
        Type::Uint8 => Value::Uint(number(u64::from(u8::MAX))),
        Type::Uint16 => Value::Uint(number(u64::from(u16::MAX))),
        Type::Uint32 => Value::Uint(number(u64::from(u32::MAX))),
        Type::Uint64 => Value::Uint(number(u64::MAX)),
        Type::Int8 | Type::Int16 | Type::Int32 | Type::Int64 => {
            Value::Int(bound.and_then(|bound| i64::try_from(bound).ok()).unwrap_or(-1))
        }
        Type::Bool => Value::Bool(!is_least),
        Type::Float64 => Value::Float(1.0),
        Type::String => Value::String(Cow::Owned("x".repeat(length))),
        Type::Bytes => Value::Bytes(Cow::Owned(vec![7; length])),
        Type::Core => Value::Core(Core { node: NodeId(1), core: CoreId(0) }),
        Type::Buffer => Value::Buffer(Buffer { pool: 0, index: 0, generation: 0, length: 1 }),
        Type::List(element) => {
            let count = range.map_or(1, |range| usize::try_from(range.least).unwrap_or(0));
            Value::List((0..count).map(|_| of_type(element.get(), None, is_least)).collect())
        }
        Type::Record(fields) => {
            Value::Record(fields.iter().map(|it| value(it, is_least)).collect())
        }
        Type::OneOf(cases) => Value::Case(0, Box::new(value(&cases[0], is_least))),
    }
}
