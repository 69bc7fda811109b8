//! The datasets that jobs read and make, as the command handles them: a job's output is in parts,
//! `NAME/0-of-R` and so on.

use nile_abi::Status;
use nile_services::dataset::records::Listed;

use crate::data::catalogue;
use crate::data::get;
use crate::data::stores::{Arguments, Stores, failed};
use crate::failure::Failure;

/// Whether a dataset is `name` or a part of it.
fn belongs(listed: &str, name: &str) -> bool {
    listed == name || catalogue::part_of(listed).is_some_and(|(whole, ..)| whole == name)
}

/// Refuses a name that a dataset has.
pub fn check_free(stores: &mut Stores, names: &[&str]) -> Result<(), Failure> {
    let all = catalogue::everything(stores)?;
    let committed = catalogue::committed(&all);
    let taken = names.iter().find(|name| committed.keys().any(|it| belongs(it, name)));
    match taken {
        None => Ok(()),
        Some(name) => Err(Failure::request(format!(
            "there is a dataset `{name}`; remove it with `nile rm {name}`, or name another"
        ))),
    }
}

/// The bytes of a job's output, its parts in their order.
pub fn read(stores: &mut Stores, name: &str) -> Result<Vec<u8>, Failure> {
    let all = catalogue::everything(stores)?;
    let known = catalogue::find(&all, name)?;
    match known.lacks() {
        Some(lacks) => Err(Failure::failed(format!("the output {name}: {lacks}"))),
        None => get::all(stores, &known),
    }
}

/// Removes datasets and parts of these names, whether there are any or not, and whether Ctrl-C was
/// pressed or not. What a node that does not answer has of them stays there.
pub fn remove(stores: &mut Stores, names: &[&str]) -> Result<(), Failure> {
    stores.session.peer.insist();
    let all = catalogue::everything(stores)?;
    let named = |listed: &Listed| names.iter().any(|name| belongs(&listed.name, name));
    for (target, listed) in all.iter().filter(|(_, listed)| named(listed)) {
        match stores.tell(*target, "remove", || Arguments::version(listed))? {
            Ok(()) => {}
            Err(error)
                if matches!(error.status, Status::NotFound | Status::Dead | Status::Timeout) => {}
            Err(error) => return Err(failed(target, &error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_of_their_name_alone() {
        assert!(belongs("a", "a") && belongs("a/0-of-1", "a") && belongs("a/9-of-10", "a"));
        for other in ["b", "a/1-of-1", "a/b/0-of-1", "ab", "a/0-of-", "a/-of-1", "a/0-of-1/x"] {
            assert!(!belongs(other, "a"), "{other}");
        }
    }
}
