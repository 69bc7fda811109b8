//! Commands that messages name, so that they can be pasted: called as this one was, for the cluster
//! that is meant, and quoted for a shell.

use std::env;

use crate::cluster::args::Which;
use crate::cluster::folder::Folder;

/// The variable in which the launcher says how it was called.
const CALLED: &str = "NILE_CALLED";

/// `nile VERB OPERANDS`, whose verb may have several words, for the cluster that `which` names.
pub fn named(which: &Which, verb: &str, operands: &[&str]) -> String {
    written(verb, which.cluster.as_deref(), operands)
}

/// The same for the cluster in `folder`.
pub fn on(folder: &Folder, verb: &str, operands: &[&str]) -> String {
    let is_usual = Folder::of(&Which::default()).is_ok_and(|usual| usual.path() == folder.path());
    let name = folder.path().file_name().unwrap_or_default().to_string_lossy();
    written(verb, (!is_usual).then_some(&*name), operands)
}

fn written(verb: &str, cluster: Option<&str>, operands: &[&str]) -> String {
    let called = env::var(CALLED).unwrap_or_else(|_| "nile".into());
    let mut words = vec![called.as_str()];
    words.extend(verb.split(' '));
    words.extend(cluster.into_iter().flat_map(|name| ["--cluster", name]));
    // What begins like an option is none.
    words.extend(operands.iter().any(|it| it.starts_with('-')).then_some("--"));
    words.extend(operands);
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// A word as any shell reads it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_shell_reads_what_was_meant() {
        for name in ["logs", "my logs", "it's", "", "a\"b$c`d\\e", "*", "~", "é;|&", "-x", "a!b"] {
            let advice = named(&Which::default(), "rm", &[name]);
            let (_, words) = advice.split_once(" rm ").expect("it has a verb");
            let words = words.strip_prefix("-- ").unwrap_or(words);
            let said = Command::new("sh").args(["-c", &format!("printf %s {words}")]).output();
            assert_eq!(String::from_utf8(said.unwrap().stdout).unwrap(), name, "{advice}");
        }
        assert!(named(&Which::default(), "rm", &["-x"]).ends_with(" rm -- -x"));
        let which = Which { cluster: Some("one".into()) };
        assert!(named(&which, "down", &[]).ends_with(" down --cluster one"));
        let destroy = named(&which, "domain destroy", &["web"]);
        assert!(destroy.ends_with(" domain destroy --cluster one web"), "{destroy}");
    }
}
