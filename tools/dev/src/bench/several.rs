//! Benchmarks of several kinds in one command, as `nile bench roles switch replace`: those of the
//! benchmark program together, then each that is beside a whole other system, as if it were named
//! alone.

use clap::{Args as _, Command, FromArgMatches as _, Subcommand as _};

use nile_cli::args::{Bench, Beside};
use nile_cli::failure::Failure;

/// The commands that do what `options` asks for, one after the other; `None` if it is one that does
/// so.
pub fn each(options: &Bench) -> Result<Option<Vec<Bench>>, Failure> {
    let known = Beside::augment_subcommands(Command::new("bench"));
    let is_beside = |name: &&String| known.find_subcommand(name).is_some();
    let (beside, plain): (Vec<&String>, Vec<&String>) = options.names.iter().partition(is_beside);
    let Some(first) = beside.first() else { return Ok(None) };
    if options.json {
        let message = format!("--json prints one document: name {first} alone");
        return Err(Failure::request(message));
    }
    let recorded = &options.recorded;
    let switch = |flag: &str, is_on: bool| is_on.then(|| vec![flag.to_owned()]);
    let note = recorded.note.as_ref().map(|note| vec!["--note".to_owned(), note.clone()]);
    let flags = [
        switch("--quick", options.quick),
        switch("--control", options.control),
        switch("--record", recorded.record),
        note,
    ];
    let flags: Vec<String> = flags.into_iter().flatten().flatten().collect();
    let groups = (!plain.is_empty()).then_some(plain).into_iter();
    let groups = groups.chain(beside.into_iter().map(|name| vec![name]));
    groups.map(|names| parsed(&names, &flags)).collect::<Result<_, _>>().map(Some)
}

fn parsed(names: &[&String], flags: &[String]) -> Result<Bench, Failure> {
    let words = ["bench"].into_iter().map(String::from);
    let words = words.chain(names.iter().map(|name| name.to_string())).chain(flags.to_vec());
    let parser = Bench::augment_args(Command::new("bench"));
    let parsed = parser.try_get_matches_from(words).and_then(|it| Bench::from_arg_matches(&it));
    parsed.map_err(|error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        Failure::request(line.trim_start_matches("error: ").to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it is beside another system, and its names.
    type Group = (bool, Vec<String>);

    fn groups(words: &[&str]) -> Result<Option<Vec<Group>>, Failure> {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        let options = parsed(&words.iter().collect::<Vec<_>>(), &[])?;
        let all = each(&options)?;
        Ok(all.map(|all| all.into_iter().map(|it| (it.beside.is_some(), it.names)).collect()))
    }

    #[test]
    fn those_beside_other_systems_come_last_and_alone() {
        let none: Vec<String> = Vec::new();
        let plain = |names: &[&str]| (false, names.iter().map(|it| it.to_string()).collect());
        let said = groups(&["roles", "switch", "replace"]).unwrap().unwrap();
        assert_eq!(said, [plain(&["roles", "replace"]), (true, none.clone())]);
        let said = groups(&["sync", "store", "stream", "net"]).unwrap().unwrap();
        assert_eq!(said, [plain(&["sync", "store"]), (true, none.clone()), (true, none)]);
        assert_eq!(groups(&["roles", "replace"]).unwrap(), None);
        assert_eq!(groups(&["stream"]).unwrap(), None, "it is named alone");
    }

    #[test]
    fn what_all_are_told_each_is_told() {
        let words = ["roles", "switch", "--quick"].map(String::from);
        let options = parsed(&words.iter().collect::<Vec<_>>(), &[]).unwrap();
        let all = each(&options).unwrap().unwrap();
        assert!(all[0].quick);
        assert!(matches!(&all[1].beside, Some(Beside::Linux(it)) if it.quick));
        assert!(groups(&["roles", "switch", "--json"]).is_err());
    }
}
