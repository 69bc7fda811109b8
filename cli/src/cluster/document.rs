//! What is said to a service: parameters from the command line as a document, checked by the
//! service's schema before it is sent.

use nile_bosml::schema::{Method, Type};
use nile_bosml::text::escape;

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

#[cfg(test)]
mod tests {
    use super::*;
    use nile_bosml::discovery;

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
    fn cases_are_named() {
        let schema = discovery::parse(DOCUMENT).unwrap();
        let call = |work: &str, at: &str| {
            of_call(&schema.methods[1], &[format!("work={work}"), format!("at={at}")])
        };
        let ready = "<choose><work>ready</work><at>none</at></choose>";
        assert_eq!(call("ready", "none").as_deref(), Ok(ready));
        let pieces = "<choose><work><pieces>7</pieces></work><at><some>n1.c2</some></at></choose>";
        assert_eq!(call("<pieces>7</pieces>", "<some>n1.c2</some>").as_deref(), Ok(pieces));
        assert!(call("", "none").is_err());
        let error = call("read", "none").unwrap_err();
        assert!(error.contains("unknown case `read`; expected one of ready, pieces"), "{error}");
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
