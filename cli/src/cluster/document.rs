//! What is said to a service: parameters from the command line as a document, checked by the
//! service's schema before it is sent.

use nile_bosml::schema::{Method, Parameter, Type};
use nile_bosml::text::escape;
use serde_json::Value;

use crate::nearest::suggestion;

/// The document that calls `method` with `parameters`, each as `name=value`. A value of a list or
/// record is its elements, as `<item>1</item><item>2</item>`, and so is a case with a value; any
/// other is taken as it stands.
/// Says what is wrong with the first parameter that is.
pub fn of_call(method: &Method<'_>, parameters: &[String]) -> Result<String, String> {
    let known = || method.parameters.iter().map(|it| it.name.as_ref());
    let mut given: Vec<&str> = Vec::new();
    let mut document = format!("<{}>", method.name);
    for parameter in parameters {
        let (name, value) = parameter
            .split_once('=')
            .ok_or_else(|| format!("`{parameter}` is no parameter; write name=value"))?;
        let described = method.parameters.iter().find(|it| it.name == name).ok_or_else(|| {
            format!("{} has no parameter `{name}`; {}", method.name, suggestion(name, known()))
        })?;
        if given.contains(&name) {
            return Err(format!("the parameter `{name}` is given twice"));
        }
        given.push(name);
        document.push_str(&format!("<{name}>"));
        match &described.ty {
            Type::List(_) | Type::Record(_) if value.is_empty() || value.starts_with('<') => {
                document.push_str(value);
            }
            Type::List(_) => {
                return Err(format!("`{name}` is a list; write {name}=\"<item>…</item>\""));
            }
            Type::OneOf(_) if value.starts_with('<') => document.push_str(value),
            Type::Record(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|it| format!("<{0}>…</{0}>", it.name)).collect();
                return Err(format!("`{name}` is a record; write {name}=\"{}\"", fields.join("")));
            }
            _ => escape(value, &mut document).map_err(|error| format!("`{name}`: {error}"))?,
        }
        document.push_str(&format!("</{name}>"));
    }
    document.push_str(&format!("</{}>", method.name));
    let missing: Vec<&str> = known().filter(|name| !given.contains(name)).collect();
    if !missing.is_empty() {
        let all = known().map(|name| format!("{name}=…")).collect::<Vec<_>>().join(" ");
        return Err(format!(
            "the parameter `{}` is missing; {} takes {all}",
            missing.join("`, `"),
            method.name
        ));
    }
    method.check_text(&document).map_err(|error| error.to_string())?;
    Ok(document)
}

/// The document that calls `method` with what `values`, an object, has for its parameters; records
/// are objects, lists arrays, cases their name or an object of it and a value, and what may be none
/// is `null` or left out if it is. Says what is wrong with the first that is.
pub fn of_values(method: &Method<'_>, values: &Value) -> Result<String, String> {
    let mut document = format!("<{}>", method.name);
    fields(&method.parameters, values, &mut document)?;
    document.push_str(&format!("</{}>", method.name));
    method.check_text(&document).map_err(|error| error.to_string())?;
    Ok(document)
}

fn fields(
    described: &[Parameter<'_>],
    values: &Value,
    document: &mut String,
) -> Result<(), String> {
    for it in described {
        let value = match values.get(it.name.as_ref()) {
            Some(value) => value,
            None if it.ty.optional().is_some() => &Value::Null,
            None => return Err(format!("`{}` is missing", it.name)),
        };
        document.push_str(&format!("<{}>", it.name));
        element(&it.ty, value, document).map_err(|error| format!("`{}`: {error}", it.name))?;
        document.push_str(&format!("</{}>", it.name));
    }
    Ok(())
}

fn element(ty: &Type<'_>, value: &Value, document: &mut String) -> Result<(), String> {
    match (ty, value) {
        (Type::Record(described), value) => fields(described, value, document),
        (Type::List(ty), Value::Array(items)) => items.iter().try_for_each(|item| {
            document.push_str("<item>");
            element(ty.get(), item, document)?;
            document.push_str("</item>");
            Ok(())
        }),
        (Type::List(_), _) => Err(format!("{value} is no list")),
        (Type::OneOf(cases), value) => case(ty, cases, value, document),
        (_, Value::String(text)) => escape(text, document).map_err(|error| error.to_string()),
        (_, Value::Number(_) | Value::Bool(_)) => {
            document.push_str(&value.to_string());
            Ok(())
        }
        _ => Err(format!("{value} is of another type")),
    }
}

/// One of these cases, which `ty` has.
fn case(
    ty: &Type<'_>,
    cases: &[Parameter<'_>],
    value: &Value,
    document: &mut String,
) -> Result<(), String> {
    let mut with_value = |name: &str, ty: &Type<'_>, value: &Value| {
        document.push_str(&format!("<{name}>"));
        element(ty, value, document)?;
        document.push_str(&format!("</{name}>"));
        Ok(())
    };
    match (ty.optional(), value) {
        (Some(_), Value::Null) => document.push_str("none"),
        (Some(ty), value) => return with_value("some", ty, value),
        // The schema says whether it is one of the cases, and has no value.
        (None, Value::String(name)) => {
            escape(name, document).map_err(|error| error.to_string())?;
        }
        (None, Value::Object(one)) if one.len() == 1 => {
            for (name, value) in one {
                let known = || cases.iter().map(|it| it.name.as_ref());
                let wrong = || format!("no case `{name}`; {}", suggestion(name, known()));
                let case = cases.iter().find(|it| it.name == name.as_str()).ok_or_else(wrong)?;
                with_value(name, &case.ty, value)?;
            }
        }
        _ => return Err(format!("{value} is no case")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_bosml::discovery;
    use serde_json::json;

    const DOCUMENT: &str = r#"<probe>
      <call mode="kernel"><parameters>
        <m><type>uint_64</type><size>8</size><encoded>true</encoded><encrypted>false</encrypted>
          <least>0</least><most>3</most></m>
        <text><type>string</type><encoded>true</encoded><encrypted>false</encrypted></text>
        <cores><type>list</type><element><type>uint_16</type></element><encoded>true</encoded>
          <encrypted>false</encrypted></cores>
      </parameters><reply/></call>
      <choose mode="kernel"><parameters>
        <work><type>one_of</type><cases><ready/><pieces><type>uint_8</type><size>1</size>
          <encoded>true</encoded><encrypted>false</encrypted></pieces></cases><size>2</size>
          <encoded>true</encoded><encrypted>false</encrypted></work>
        <at><type>one_of</type><cases><none/><some><type>core</type><size>6</size>
          <encoded>true</encoded><encrypted>false</encrypted></some></cases><size>7</size>
          <encoded>true</encoded><encrypted>false</encrypted></at>
      </parameters><reply/></choose></probe>"#;

    fn document(parameters: &[&str]) -> Result<String, String> {
        let schema = discovery::parse(DOCUMENT).unwrap();
        let parameters: Vec<String> = parameters.iter().map(|it| it.to_string()).collect();
        of_call(&schema.methods[0], &parameters)
    }

    #[test]
    fn values_stand_in_elements_and_are_escaped() {
        let parameters = ["text=<a> & b=c", "m=2", "cores=<item>1</item><item>2</item>"];
        let expected = "<call><text>&lt;a&gt; &amp; b=c</text><m>2</m>\
                        <cores><item>1</item><item>2</item></cores></call>";
        assert_eq!(document(&parameters), Ok(expected.into()));
        assert!(document(&["text=", "m=0", "cores="]).is_ok());
    }

    #[test]
    fn values_become_elements() {
        let schema = discovery::parse(DOCUMENT).unwrap();
        let call = |values| of_values(&schema.methods[0], &values);
        let document = call(json!({ "cores": [1, 2], "m": 2, "text": "<a>", "more": 1 }));
        let expected = "<call><m>2</m><text>&lt;a&gt;</text>\
                        <cores><item>1</item><item>2</item></cores></call>";
        assert_eq!(document, Ok(expected.into()));
        for (values, said) in [
            (json!({ "m": 2, "text": "a" }), "`cores` is missing"),
            (json!({ "m": 2, "text": "a", "cores": 7 }), "`cores`: 7 is no list"),
            (json!({ "m": 9, "text": "a", "cores": [] }), "call/m"),
        ] {
            let error = call(values).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn cases_are_named() {
        let schema = discovery::parse(DOCUMENT).unwrap();
        let choose = &schema.methods[1];
        let ready = "<choose><work>ready</work><at>none</at></choose>";
        let pieces = "<choose><work><pieces>7</pieces></work><at><some>n1.c2</some></at></choose>";
        for (values, expected) in [
            (json!({ "work": "ready" }), ready),
            (json!({ "work": "ready", "at": null }), ready),
            (json!({ "work": { "pieces": 7 }, "at": "n1.c2" }), pieces),
        ] {
            assert_eq!(of_values(choose, &values).as_deref(), Ok(expected));
        }
        for (values, said) in [
            (json!({ "at": null }), "`work` is missing"),
            (json!({ "work": 1 }), "`work`: 1 is no case"),
            (json!({ "work": {} }), "`work`: {} is no case"),
            (json!({ "work": { "piece": 1 } }), "no case `piece`; did you mean `pieces`?"),
            (json!({ "work": "pieces" }), "the case's element"),
            (json!({ "work": "read" }), "unknown case `read`; expected one of ready, pieces"),
        ] {
            let error = of_values(choose, &values).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        let call =
            |work: &str, at: &str| of_call(choose, &[format!("work={work}"), format!("at={at}")]);
        assert_eq!(call("ready", "none").as_deref(), Ok(ready));
        assert_eq!(call("<pieces>7</pieces>", "<some>n1.c2</some>").as_deref(), Ok(pieces));
        assert!(call("", "none").is_err());
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        for (parameters, said) in [
            (&["m"][..], "`m` is no parameter; write name=value"),
            (&["test=a", "m=1", "cores="], "no parameter `test`; did you mean `text`?"),
            (&["m=1", "m=2"], "`m` is given twice"),
            (&["m=1", "text=a"], "`cores` is missing; call takes m=… text=… cores=…"),
            (&["m=1", "text=a", "cores=1,2"], "`cores` is a list; write cores=\"<item>"),
            (&["m=9", "text=a", "cores="], "call/m, line 1"),
            (&["m=1", "text=\u{1}", "cores="], "`text`"),
            (&["m=1", "text=a", "cores=</cores>"], "call"),
        ] {
            let error = document(parameters).unwrap_err();
            assert!(error.contains(said), "{parameters:?}: {error}");
        }
    }
}
