//! Questions for addresses (RFC 1035). The cluster's own names are answered here; what has another
//! zone is for the resolver of this machine.

use std::net::IpAddr;

use smoltcp::wire::{DnsFlags, DnsOpcode, DnsPacket, DnsQueryType, DnsQuestion, DnsRcode};

use super::names::{Found, ZONE};

/// Bytes before the questions.
const HEADER: usize = 12;

/// Bytes of the longest name, with its dots.
const LONGEST_NAME: usize = 253;

/// Seconds for which an own name may be remembered: domains come and go.
const FRESH: u32 = 5;

/// What becomes of a question.
#[derive(PartialEq, Eq, Debug)]
pub enum Reply {
    /// This is the answer.
    Say(Vec<u8>),
    /// Somebody else has to say it.
    Forward,
    /// It is none.
    Ignore,
}

/// Looks at a question, which is any bytes. `find` gives the addresses of an own name without its
/// zone.
pub fn reply(query: &[u8], find: impl FnOnce(&str) -> Option<Found>) -> Reply {
    let Ok(packet) = DnsPacket::new_checked(query) else { return Reply::Ignore };
    if packet.flags().contains(DnsFlags::RESPONSE) {
        return Reply::Ignore;
    }
    if packet.opcode() != DnsOpcode::Query {
        return Reply::Say(answer(query, &[], DnsRcode::NotImp, None));
    }
    let Some((asked, name, kind)) = question(query) else {
        return Reply::Say(answer(query, &[], DnsRcode::FormErr, None));
    };
    let own = match name.rsplit_once('.') {
        None if name == ZONE => "",
        None => &name,
        Some((own, ZONE)) => own,
        Some(_) => return Reply::Forward,
    };
    let found = if own.contains('.') { None } else { find(own) };
    let rcode = match found {
        None if !own.is_empty() => DnsRcode::NXDomain,
        _ => DnsRcode::NoError,
    };
    // A name that is there may have no address of the kind that is asked for.
    let found = found.and_then(|it| match kind {
        DnsQueryType::A => Some(IpAddr::V4(it.v4)),
        DnsQueryType::Aaaa => it.v6.map(IpAddr::V6),
        _ => None,
    });
    Reply::Say(answer(query, asked, rcode, found))
}

/// The answer that nobody could be asked.
pub fn failed(query: &[u8]) -> Vec<u8> {
    let asked = question(query).map_or(&[][..], |it| it.0);
    answer(query, asked, DnsRcode::ServFail, None)
}

/// The answer that it is too long for a datagram.
pub fn too_long(query: &[u8]) -> Vec<u8> {
    let asked = question(query).map_or(&[][..], |it| it.0);
    let mut bytes = answer(query, asked, DnsRcode::NoError, None);
    let mut packet = DnsPacket::new_unchecked(&mut bytes[..]);
    packet.set_flags(packet.flags() | DnsFlags::TRUNCATED);
    bytes
}

/// Whether this is an answer to a question, by the number that it was asked under.
pub fn answers(answer: &[u8], query: &[u8], number: u16) -> bool {
    let Ok(packet) = DnsPacket::new_checked(answer) else { return false };
    let same = |a: &[u8], b: &[u8]| a.eq_ignore_ascii_case(b);
    packet.transaction_id() == number
        && packet.flags().contains(DnsFlags::RESPONSE)
        && question(answer).zip(question(query)).is_some_and(|(a, b)| same(a.0, b.0))
}

/// The only question of a message: its bytes, the name in small letters, and what is asked for.
fn question(message: &[u8]) -> Option<(&[u8], String, DnsQueryType)> {
    let packet = DnsPacket::new_checked(message).ok()?;
    let asked = &message[HEADER..];
    let (rest, question) = DnsQuestion::parse(asked).ok()?;
    let mut name = String::new();
    for label in packet.parse_name(question.name) {
        let label = str::from_utf8(label.ok()?).ok()?;
        if label.contains('.') {
            return None;
        }
        name = if name.is_empty() { label.into() } else { format!("{name}.{label}") };
        if name.len() > LONGEST_NAME {
            return None;
        }
    }
    let asked = &asked[..asked.len() - rest.len()];
    let is_only = packet.question_count() == 1;
    is_only.then(|| (asked, name.to_ascii_lowercase(), question.type_))
}

/// An answer with the question's bytes, and with an address if there is one.
fn answer(query: &[u8], asked: &[u8], rcode: DnsRcode, found: Option<IpAddr>) -> Vec<u8> {
    let of = DnsPacket::new_unchecked(query);
    let mut bytes = vec![0; HEADER];
    let mut packet = DnsPacket::new_unchecked(&mut bytes[..]);
    packet.set_transaction_id(of.transaction_id());
    let wanted = of.flags() & DnsFlags::RECURSION_DESIRED;
    packet.set_flags(DnsFlags::RESPONSE | DnsFlags::RECURSION_AVAILABLE | wanted);
    packet.set_opcode(of.opcode());
    packet.set_question_count(u16::from(!asked.is_empty()));
    packet.set_answer_record_count(u16::from(found.is_some()));
    bytes[3] |= u8::from(rcode);
    bytes.extend(asked);
    if let Some(address) = found {
        let (kind, octets) = match address {
            IpAddr::V4(it) => (DnsQueryType::A, &it.octets()[..]),
            IpAddr::V6(it) => (DnsQueryType::Aaaa, &it.octets()[..]),
        };
        // The name is that of the question: a pointer to it. Class IN, so many bytes.
        bytes.extend([0xc0, HEADER as u8]);
        bytes.extend(u16::from(kind).to_be_bytes());
        bytes.extend([0, 1]);
        bytes.extend(FRESH.to_be_bytes());
        bytes.extend([0, octets.len() as u8]);
        bytes.extend(octets);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;
    use simple_dns::rdata::RData;
    use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};

    const FIRST: Found = Found {
        v4: Ipv4Addr::new(10, 42, 0, 1),
        v6: Some(Ipv6Addr::new(0xfd42, 0, 0, 0, 0, 0, 0, 1)),
    };

    fn find(name: &str) -> Option<Found> {
        let other = Found { v6: None, ..FIRST };
        [("n1", FIRST), ("n4", other)].into_iter().find(|it| it.0 == name).map(|it| it.1)
    }

    /// A question as another project's crate writes it.
    fn asks(name: &str, kind: TYPE) -> Vec<u8> {
        let mut packet = Packet::new_query(0x1234);
        packet.set_flags(PacketFlag::RECURSION_DESIRED);
        let (kind, class) = (QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN));
        packet.questions.push(Question::new(Name::new(name).unwrap(), kind, class, false));
        packet.build_bytes_vec().unwrap()
    }

    /// What an answer says, as that crate reads it.
    fn said(query: &[u8]) -> (RCODE, Vec<IpAddr>) {
        let Reply::Say(bytes) = reply(query, find) else { panic!("no answer") };
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!(packet.id(), 0x1234);
        assert!(packet.has_flags(PacketFlag::RESPONSE | PacketFlag::RECURSION_DESIRED));
        let asked = Packet::parse(query).unwrap();
        assert_eq!(packet.questions[0].qname, asked.questions[0].qname);
        let address = |it: &simple_dns::ResourceRecord<'_>| match &it.rdata {
            RData::A(it_is) if it.name == asked.questions[0].qname => {
                Ipv4Addr::from(it_is.address).into()
            }
            RData::AAAA(it_is) if it.name == asked.questions[0].qname => {
                Ipv6Addr::from(it_is.address).into()
            }
            other => panic!("{other:?}"),
        };
        (packet.rcode(), packet.answers.iter().map(address).collect())
    }

    #[test]
    fn own_names_are_answered_and_others_are_not() {
        for name in ["n1", "n1.cluster", "N1.Cluster"] {
            let (v4, v6) = (FIRST.v4.into(), FIRST.v6.unwrap().into());
            assert_eq!(said(&asks(name, TYPE::A)), (RCODE::NoError, vec![v4]), "{name}");
            assert_eq!(said(&asks(name, TYPE::AAAA)), (RCODE::NoError, vec![v6]), "{name}");
            assert_eq!(said(&asks(name, TYPE::MX)), (RCODE::NoError, vec![]), "{name}");
        }
        assert_eq!(said(&asks("n4", TYPE::AAAA)), (RCODE::NoError, vec![]));
        assert_eq!(said(&asks("cluster", TYPE::A)), (RCODE::NoError, vec![]));
        for name in ["n2", "n2.cluster", "a.n1.cluster", "localhost"] {
            assert_eq!(said(&asks(name, TYPE::A)), (RCODE::NameError, vec![]), "{name}");
        }
        for name in ["n1.example", "cluster.example.com", "a.b"] {
            assert_eq!(reply(&asks(name, TYPE::A), find), Reply::Forward, "{name}");
        }
    }

    #[test]
    fn an_answer_is_one_to_its_question_alone() {
        let query = asks("www.example.com", TYPE::A);
        for (bytes, rcode) in
            [(failed(&query), RCODE::ServerFailure), (too_long(&query), RCODE::NoError)]
        {
            let packet = Packet::parse(&bytes).unwrap();
            assert_eq!((packet.rcode(), packet.questions.len()), (rcode, 1));
            assert!(answers(&bytes, &query, 0x1234));
            assert!(!answers(&bytes, &query, 0x1235) && !answers(&query, &query, 0x1234));
            assert!(!answers(&bytes, &asks("www.example.org", TYPE::A), 0x1234));
        }
        let long = too_long(&query);
        assert!(Packet::parse(&long).unwrap().has_flags(PacketFlag::TRUNCATION));
        let mut odd = asks("n1", TYPE::A);
        odd[2] |= 0x20;
        assert_eq!(said_code(&odd), u8::from(DnsRcode::NotImp));
        let mut two = asks("n1", TYPE::A);
        two[5] = 2;
        assert_eq!(said_code(&two), u8::from(DnsRcode::FormErr));
        assert_eq!(reply(&long, find), Reply::Ignore);
        assert_eq!(reply(&query[..11], find), Reply::Ignore);
    }

    fn said_code(query: &[u8]) -> u8 {
        let Reply::Say(bytes) = reply(query, find) else { panic!("no answer") };
        bytes[3] & 15
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_or_not(
            head in any::<[u8; 12]>(),
            body in proptest::collection::vec(any::<u8>(), 0..64),
            sane: bool,
        ) {
            let mut bytes = [&head[..], &body].concat();
            if sane {
                bytes[2..6].copy_from_slice(&[1, 0, 0, 1]);
            }
            for bytes in [&bytes[..], &bytes[..bytes.len() / 2]] {
                if let Reply::Say(said) = reply(bytes, find) {
                    prop_assert_eq!(&said[..2], &bytes[..2]);
                    prop_assert!(said[2] & 0x80 != 0);
                }
                if bytes.len() >= HEADER {
                    prop_assert!(failed(bytes).len() >= HEADER);
                }
                let _ = answers(bytes, bytes, 0);
            }
        }
    }
}
