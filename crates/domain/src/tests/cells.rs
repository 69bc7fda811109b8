//! Every message has one form, and every other cell is refused.

use alloc::string::ToString;

use nile_abi::Generation;
use proptest::prelude::*;

use super::name;
use crate::*;

const DOMAIN: DomainId = DomainId { slot: 3, generation: Generation(7) };

#[test]
fn messages_are_read_as_they_were_written() {
    let extent = Extent { start: 9, count: 4 };
    for message in [
        Message::Back,
        Message::OfferCore(255),
        Message::TakeCore(0),
        Message::CoreParked(7),
        Message::OfferMemory(extent),
        Message::WantMemory(u32::MAX),
        Message::MemoryAccepted(extent),
        Message::Stop,
        Message::Hello,
        Message::CoreTaken(1),
        Message::CoreRefused(2),
        Message::MemoryTaken(extent),
        Message::MemoryGiven(extent),
        Message::MemoryRefused(5),
    ] {
        assert_eq!(Message::decode(&message.encode(DOMAIN)), Ok((DOMAIN, message)));
    }
}

#[test]
fn commands_are_read_as_they_were_written() {
    let limits = Limits { cores: (1, 300), units: (2, 70_000), priority: 9 };
    let (web, longest) = (name("web"), name("a-name-of-24-characters-"));
    for command in [
        Command::Create(Create { name: longest, cores: 2, units: 8, limits, device: Some(4) }),
        Command::Create(Create { name: web, cores: 2, units: 8, limits, device: None }),
        Command::Resize(Resize { name: web, cores: Some(0), units: None, force: true }),
        Command::Resize(Resize { name: web, cores: None, units: Some(9), force: false }),
        Command::Destroy { name: web, force: true },
        Command::Lend { from: longest, to: web, cores: 1, millis: u32::MAX },
        Command::Recall { from: web },
    ] {
        assert_eq!(Command::decode(&command.encode()), Ok(command));
    }
}

#[test]
fn names_are_plain_and_no_nodes() {
    for text in ["web", "n", "n1a", "a-2", "a-name-of-24-characters-"] {
        assert_eq!(text.parse::<Name>().unwrap().to_string(), text);
    }
    for text in ["", "n1", "n4294967296", "switch", "Web", "2a", "-a", "a.b", "a b", "ü"] {
        assert_eq!(text.parse::<Name>(), Err(Refused::Name), "{text}");
    }
    assert!("a-name-of-25-characters--".parse::<Name>().is_err());
}

proptest! {
    /// What is read is written as it was: no two cells say the same.
    #[test]
    fn any_cell_is_a_message_or_refused(
        kind in 0u8..16,
        mut cell in proptest::collection::vec(
            prop_oneof![Just(0u8), Just(b'a'), any::<u8>()],
            CELL,
        ),
        zeros in 0usize..=CELL,
    ) {
        cell[0] = kind;
        cell[CELL - zeros..].fill(0);
        if let Ok((domain, message)) = Message::decode(&cell) {
            prop_assert_eq!(&message.encode(domain)[..], &cell[..]);
        }
        if let Ok(command) = Command::decode(&cell) {
            prop_assert_eq!(&command.encode()[..], &cell[..]);
        }
        prop_assert_eq!(Message::decode(&cell[1..]), Err(Malformed));
        prop_assert_eq!(Command::decode(&cell[1..]), Err(Malformed));
    }
}
