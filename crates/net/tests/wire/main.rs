//! Scripts of what goes over the wire, played to our stack and to Linux (docs/network.md): one
//! counts only if Linux does what it says. Where we do not, the script says why, and it is checked
//! that this still holds.

mod engine;
mod linux;
mod packet;
mod play;
mod rules;
mod script;
mod tap;

use std::fs;
use std::path::Path;
use std::thread;

use self::engine::{Engine, HARMS, Harm, words};
use self::linux::{Link, Linux};
use self::play::play;
use self::script::Script;

fn scripts() -> Vec<Script> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/scripts");
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("the scripts").map(|it| it.expect("a file").path()).collect();
    files.sort();
    let only = std::env::var("NILE_WIRE").unwrap_or_default();
    let read = |path: &std::path::PathBuf| {
        let name = path.file_name().and_then(|it| it.to_str()).expect("a plain name");
        let text = fs::read_to_string(path).expect("a script");
        Script::parse(name, &text).unwrap_or_else(|what| panic!("{what}"))
    };
    files.iter().map(read).filter(|it| it.name.contains(&only)).collect()
}

/// Whether our stack does what a script says.
fn ours(script: &Script, harm: Harm) -> Result<(), String> {
    play(script, &mut Engine::new(&words(), harm))
}

#[test]
fn our_stack_does_what_scripts_say_or_they_say_why_not() {
    let mut wrong = Vec::new();
    for script in scripts() {
        match (ours(&script, Harm::None), &script.differs) {
            (Ok(()), Some(_)) => wrong.push(format!("{} differs no more", script.name)),
            (Err(what), None) => wrong.push(what),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The controls: whatever rule a stack breaks, some script tells.
#[test]
fn a_stack_that_breaks_a_rule_fails_scripts() {
    let scripts: Vec<_> = scripts().into_iter().filter(|it| it.differs.is_none()).collect();
    for harm in HARMS {
        let failed = scripts.iter().filter(|it| ours(it, harm).is_err()).count();
        eprintln!("{harm:?}: {failed} of {} scripts fail", scripts.len());
        assert!(failed > 0 && failed < scripts.len(), "{harm:?}: {failed} scripts fail");
    }
}

#[test]
fn linux_does_what_every_script_says() {
    if !tap::is_inside("linux_does_what_every_script_says") {
        return;
    }
    let (link, scripts) = (Link::open(), scripts());
    let play = |number, script| play(script, &mut Linux::new(&link, number)).err();
    let failed: Vec<(u16, &Script)> = thread::scope(|scope| {
        let begin = |(number, script)| (number, script, scope.spawn(move || play(number, script)));
        let played: Vec<_> = (1..).zip(&scripts).map(begin).collect();
        let fails = played.into_iter().filter_map(|(number, script, ends)| {
            ends.join().expect("no panic").map(|_| (number, script))
        });
        fails.collect()
    });
    // A machine that stands still for long has Linux send again: each has a second try, alone.
    let again = failed.into_iter().filter_map(|(number, script)| play(1000 + number, script));
    let wrong: Vec<String> = again.collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    eprintln!("Linux does what {} scripts say", scripts.len());
}

/// What Linux does to packets by its rules we do by ours, whose meaning is the same; and a rule
/// that does the opposite is found.
#[test]
fn linux_does_to_packets_what_we_do() {
    if !tap::is_inside("linux_does_to_packets_what_we_do") {
        return;
    }
    let said = std::env::var("NILE_NFT_DRAWS").ok();
    let draws = said.and_then(|it| it.parse().ok()).unwrap_or(40);
    let Some(mut linux) = rules::Linux::open() else { return };
    let mut differs = |number, flips| {
        let seed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        rules::differs(&mut linux, number, seed, flips)
    };
    for number in 0..draws {
        let said = differs(number, false);
        assert!(said.is_none(), "draw {number}:\n{}", said.unwrap_or_default());
    }
    let found = (draws..draws + 20).filter(|number| differs(*number, true).is_some()).count();
    eprintln!("{draws} sets of rules do the same; of 20 wrong ones {found} are found");
    assert!(found > 0, "no rule that does the opposite is found");
}
