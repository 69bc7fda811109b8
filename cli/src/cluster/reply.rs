//! Replies as JSON: what a service answers, named and typed by its schema.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nile_bosml::schema::{CallerKind, Method, Parameter, Service, Type};
use nile_bosml::{REPLY, Value as Bosml, values_from_text};
use serde_json::{Map, Value};

/// The reply of a method, as an object.
pub fn of_method(method: &Method<'_>, text: &str) -> Result<Value, nile_bosml::Error> {
    let values = values_from_text(&method.reply, REPLY, text)?;
    Ok(object(&method.reply, &values))
}

fn object(names: &[Parameter<'_>], values: &[Bosml<'_>]) -> Value {
    let fields = names.iter().zip(values);
    let fields = fields.map(|(it, value)| (it.name.to_string(), json(&it.ty, value)));
    Value::Object(fields.collect::<Map<_, _>>())
}

/// A value as JSON has it. What it has no type for is text as in documents: bytes, cores, buffers,
/// and numbers that are none. A case is its name, or an object of that and its value; what may be
/// none is `null`, or itself.
fn json(ty: &Type<'_>, value: &Bosml<'_>) -> Value {
    match (value, ty) {
        (Bosml::Uint(number), _) => (*number).into(),
        (Bosml::Int(number), _) => (*number).into(),
        (Bosml::Bool(truth), _) => (*truth).into(),
        (Bosml::Float(number), _) if number.is_finite() => (*number).into(),
        (Bosml::Float(number), _) => format!("{number:?}").into(),
        (Bosml::String(text), _) => text.as_ref().into(),
        (Bosml::Bytes(bytes), _) => STANDARD.encode(bytes).into(),
        (Bosml::Core(core), _) => core.to_string().into(),
        (Bosml::Buffer(buffer), _) => buffer.to_string().into(),
        (Bosml::List(items), Type::List(item)) => {
            items.iter().map(|it| json(item.get(), it)).collect()
        }
        (Bosml::Record(values), Type::Record(fields)) => object(fields, values),
        (Bosml::Case(number, value), Type::OneOf(cases)) => {
            let case = &cases[usize::from(*number)];
            match ty.optional() {
                Some(_) if case.ty.is_nothing() => Value::Null,
                Some(ty) => json(ty, value),
                None if case.ty.is_nothing() => case.name.as_ref().into(),
                None => serde_json::json!({ case.name.as_ref(): json(&case.ty, value) }),
            }
        }
        // The values were read by this very schema.
        (Bosml::List(_) | Bosml::Record(_) | Bosml::Case(..), _) => Value::Null,
    }
}

/// A service's schema as JSON.
pub fn schema(service: &Service<'_>) -> Value {
    let method = |method: &Method<'_>| {
        serde_json::json!({
            "name": method.name,
            "doc": method.doc,
            "mode": method.mode.name(),
            "callers": method.callers.iter().map(CallerKind::name).collect::<Vec<_>>(),
            "parameters": parameters(&method.parameters),
            "reply": parameters(&method.reply),
        })
    };
    serde_json::json!({
        "name": service.name,
        "doc": service.doc,
        "methods": service.methods.iter().map(method).collect::<Vec<_>>(),
    })
}

fn parameters(all: &[Parameter<'_>]) -> Value {
    let one = |it: &Parameter<'_>| {
        let mut fields = kind(&it.ty);
        fields.insert("name".into(), it.name.as_ref().into());
        fields.insert("doc".into(), it.doc.as_ref().into());
        fields.insert("size".into(), it.size().into());
        fields.insert("encoded".into(), it.encoded.into());
        fields.insert("encrypted".into(), it.encrypted.into());
        if let Some(range) = it.range {
            // Exact if it fits a number of JSON, which all but the widest do.
            let number = |bound: i128| {
                i64::try_from(bound).map(Value::from).or(u64::try_from(bound).map(Value::from))
            };
            let number = |bound| number(bound).unwrap_or_else(|_| bound.to_string().into());
            fields.insert("least".into(), number(range.least));
            fields.insert("most".into(), number(range.most));
        }
        Value::Object(fields)
    };
    all.iter().map(one).collect()
}

fn kind(ty: &Type<'_>) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("type".into(), ty.name().into());
    match ty {
        Type::List(element) => {
            fields.insert("element".into(), Value::Object(kind(element.get())));
        }
        Type::Record(parts) => {
            fields.insert("fields".into(), parameters(parts));
        }
        Type::OneOf(cases) => {
            fields.insert("cases".into(), parameters(cases));
        }
        _ => {}
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_bosml::discovery;
    use serde_json::json;

    const DOCUMENT: &str = r#"<probe doc="A test">
      <look mode="kernel" callers="operator peer" doc="Looks"><parameters/><reply>
        <at doc=""><type>core</type><size>6</size><encoded>true</encoded>
          <encrypted>false</encrypted></at>
        <all doc=""><type>list</type><element><type>record</type><fields>
            <n doc=""><type>uint_64</type><size>8</size><encoded>true</encoded>
              <encrypted>false</encrypted></n>
            <f doc=""><type>float_64</type><size>8</size><encoded>true</encoded>
              <encrypted>false</encrypted></f>
          </fields></element><encoded>true</encoded><encrypted>false</encrypted></all>
        <work><type>list</type><element><type>one_of</type><cases><ready/><pieces>
          <type>uint_8</type><size>1</size><encoded>true</encoded><encrypted>false</encrypted>
          </pieces>
          </cases></element><encoded>true</encoded><encrypted>false</encrypted></work>
        <runs><type>list</type><element><type>one_of</type><cases><none/><some><type>core</type>
          <size>6</size><encoded>true</encoded><encrypted>false</encrypted></some></cases>
          </element><encoded>true</encoded><encrypted>false</encrypted></runs>
        <raw doc=""><type>bytes</type><encoded>true</encoded><encrypted>false</encrypted></raw>
      </reply></look></probe>"#;

    #[test]
    fn replies_have_the_types_of_their_schema() {
        let text = "<reply><at>n2.c3</at><all><item><n>18446744073709551615</n><f>1.5</f></item>\
                    <item><n>0</n><f>NaN</f></item></all><work><item>ready</item>\
                    <item><pieces>2</pieces></item></work><runs><item>none</item>\
                    <item><some>n1.c2</some></item></runs>\
                    <raw>AQI=</raw></reply>";
        let schema = discovery::parse(DOCUMENT).unwrap();
        let reply = of_method(&schema.methods[0], text).unwrap();
        let all = json!([{ "n": u64::MAX, "f": 1.5 }, { "n": 0, "f": "NaN" }]);
        let (work, runs) = (json!(["ready", { "pieces": 2 }]), json!([null, "n1.c2"]));
        let expected =
            json!({ "at": "n2.c3", "all": all, "work": work, "runs": runs, "raw": "AQI=" });
        assert_eq!(reply, expected);
        assert!(of_method(&schema.methods[0], "<reply/>").is_err());
    }

    #[test]
    fn schemas_say_everything() {
        let schema = schema(&discovery::parse(DOCUMENT).unwrap());
        let list = &schema["methods"][0]["reply"][1];
        assert_eq!(list["element"]["fields"][0]["type"], "uint_64");
        assert_eq!(schema["methods"][0]["mode"], "kernel");
        assert_eq!(schema["methods"][0]["callers"], json!(["operator", "peer"]));
        let cases = &schema["methods"][0]["reply"][2]["element"]["cases"];
        assert_eq!((&cases[0]["name"], &cases[1]["type"]), (&json!("ready"), &json!("uint_8")));
    }
}
