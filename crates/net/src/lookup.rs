//! Asks for the addresses of a name (RFC 1035), without IO or clock: the bytes of the question, and
//! what an answer says.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use smoltcp::wire::{
    DnsFlags, DnsOpcode, DnsPacket, DnsQueryType, DnsQuestion, DnsRcode, DnsRecord, DnsRecordData,
};

/// Bytes before the questions.
const HEADER: usize = 12;

/// Bytes of the longest name as a message has it, and of the longest label.
const LONGEST: usize = 255;
const LONGEST_LABEL: usize = 63;

/// The port that names are asked at.
pub const PORT: u16 = 53;

/// Why a name has no address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameError {
    /// It is no name: a label is empty or too long, or it is too long itself.
    Malformed,
    /// There is no such name, or it has no address of the kind that was asked for.
    Unknown,
    /// The resolver cannot say it, or says what makes no sense.
    Failed,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NameError::Malformed => "it is no name",
            NameError::Unknown => "no such name is known, or it has no address",
            NameError::Failed => "the resolver cannot say it",
        })
    }
}

/// Which addresses are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Those of IPv4.
    V4,
    /// Those of IPv6.
    V6,
}

/// A question for the addresses of a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question(Vec<u8>);

impl Question {
    /// A question for the addresses of one kind of `name`, with or without a dot at its end, by a
    /// number that nobody can predict.
    pub fn new(name: &str, kind: Kind, number: u16) -> Result<Question, NameError> {
        let mut encoded = Vec::new();
        for label in name.strip_suffix('.').unwrap_or(name).split('.') {
            let length = u8::try_from(label.len()).map_err(|_| NameError::Malformed)?;
            if label.is_empty() || label.len() > LONGEST_LABEL {
                return Err(NameError::Malformed);
            }
            encoded.push(length);
            encoded.extend(label.as_bytes());
        }
        encoded.push(0);
        if encoded.len() > LONGEST {
            return Err(NameError::Malformed);
        }
        let type_ = match kind {
            Kind::V4 => DnsQueryType::A,
            Kind::V6 => DnsQueryType::Aaaa,
        };
        let question = DnsQuestion { name: &encoded, type_ };
        let mut bytes = vec![0; HEADER + question.buffer_len()];
        let mut packet = DnsPacket::new_unchecked(&mut bytes[..]);
        packet.set_transaction_id(number);
        packet.set_flags(DnsFlags::RECURSION_DESIRED);
        packet.set_opcode(DnsOpcode::Query);
        packet.set_question_count(1);
        question.emit(packet.payload_mut());
        Ok(Question(bytes))
    }

    /// What is to be sent.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// What a message says, which is any bytes: at least one address, or why there is none. `None`:
    /// it is no answer to this question.
    pub fn answer(&self, message: &[u8]) -> Option<Result<Vec<IpAddr>, NameError>> {
        let packet = DnsPacket::new_checked(message).ok()?;
        let asked = &self.0[HEADER..];
        let is_answer = packet.transaction_id()
            == DnsPacket::new_unchecked(self.bytes()).transaction_id()
            && packet.flags().contains(DnsFlags::RESPONSE)
            && packet.question_count() == 1
            && packet.payload().get(..asked.len())?.eq_ignore_ascii_case(asked);
        if !is_answer {
            return None;
        }
        Some(match packet.rcode() {
            DnsRcode::NoError => addresses(&packet, asked.len()),
            DnsRcode::NXDomain => Err(NameError::Unknown),
            _ => Err(NameError::Failed),
        })
    }
}

/// The addresses in an answer whose question has so many bytes: those of the name, or of what it is
/// another name for.
fn addresses(packet: &DnsPacket<&[u8]>, question: usize) -> Result<Vec<IpAddr>, NameError> {
    let failed = |_| NameError::Failed;
    let mut rest = &packet.payload()[question..];
    // Behind the name are its kind and class.
    let mut name = &packet.payload()[..question - 4];
    let mut found = Vec::new();
    for _ in 0..packet.answer_record_count() {
        let (behind, record) = DnsRecord::parse(rest).map_err(failed)?;
        rest = behind;
        if !is_same(packet, record.name, name)? {
            continue;
        }
        match record.data {
            DnsRecordData::A(address) => found.push(address.into()),
            DnsRecordData::Aaaa(address) => found.push(address.into()),
            DnsRecordData::Cname(other) => name = other,
            DnsRecordData::Other(..) => {}
        }
    }
    if found.is_empty() { Err(NameError::Unknown) } else { Ok(found) }
}

/// Whether two names of a message are the same.
fn is_same(packet: &DnsPacket<&[u8]>, one: &[u8], other: &[u8]) -> Result<bool, NameError> {
    let mut others = packet.parse_name(other);
    for label in packet.parse_name(one) {
        let label = label.map_err(|_| NameError::Failed)?;
        match others.next() {
            Some(Ok(other)) if label.eq_ignore_ascii_case(other) => {}
            Some(Err(_)) => return Err(NameError::Failed),
            _ => return Ok(false),
        }
    }
    Ok(others.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;

    const NUMBER: u16 = 0x1234;
    const FIRST: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 1);
    const FIRST6: Ipv6Addr = Ipv6Addr::new(0xfd42, 0, 0, 0, 0, 0, 0, 1);

    fn question() -> Question {
        Question::new("www.Example.com", Kind::V4, NUMBER).unwrap()
    }

    /// An answer with these records: the name as it stands in a message, the kind, and its data.
    fn answer(rcode: u8, records: &[(&[u8], u8, &[u8])]) -> Vec<u8> {
        let mut bytes = question().0.to_ascii_lowercase();
        bytes[2..4].copy_from_slice(&[0x81, 0x80 | rcode]);
        bytes[7] = records.len() as u8;
        for (name, kind, data) in records {
            bytes
                .extend([*name, &[0, *kind, 0, 1, 0, 0, 0, 9, 0, data.len() as u8], data].concat());
        }
        bytes
    }

    #[test]
    fn an_answer_has_the_addresses_of_a_name_or_of_what_it_stands_for() {
        let (own, first) = (&[0xc0, 12][..], &FIRST.octets()[..]);
        let said = |rcode, records: &[_]| question().answer(&answer(rcode, records)).unwrap();
        assert_eq!(
            said(0, &[(own, 1, first), (own, 1, &[1, 2, 3, 4])]),
            Ok(vec![FIRST.into(), Ipv4Addr::new(1, 2, 3, 4).into()])
        );
        let alias = &b"\x01a\xc0\x10"[..];
        let spelled = &b"\x01A\x07example\x03com\x00"[..];
        let chain = [(own, 5, alias), (own, 1, &[9, 9, 9, 9][..]), (spelled, 1, first)];
        assert_eq!(said(0, &chain), Ok(vec![FIRST.into()]), "of others it is not believed");
        let both = [(own, 28, &FIRST6.octets()[..]), (own, 1, first)];
        assert_eq!(said(0, &both), Ok(vec![FIRST6.into(), FIRST.into()]));
        assert_eq!(said(0, &[(alias, 1, first)]), Err(NameError::Unknown));
        assert_eq!((said(3, &[]), said(2, &[])), (Err(NameError::Unknown), Err(NameError::Failed)));
        assert_eq!(said(0, &[(own, 1, &[1, 2, 3])]), Err(NameError::Failed));
        let mut other = answer(0, &[(own, 1, first)]);
        other[1] ^= 1;
        assert_eq!(question().answer(&other), None);
        other[1] ^= 1;
        other[14] ^= 1;
        assert_eq!(
            (question().answer(&other), question().answer(question().bytes())),
            (None, None)
        );
    }

    #[test]
    fn a_name_has_labels_of_one_to_63_bytes() {
        let long = "a".repeat(63);
        let longest = [&*long, &*long, &*long, &long[2..]].join(".");
        for name in ["n1", "n1.", "a.b", &long, &longest] {
            assert!(Question::new(name, Kind::V6, 1).is_ok(), "{name}");
        }
        for name in ["", ".", "a..b", ".a", &"a".repeat(64), &format!("a{longest}")] {
            assert_eq!(Question::new(name, Kind::V6, 1), Err(NameError::Malformed), "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer_or_not(
            records in proptest::collection::vec(any::<u8>(), 0..64),
            count: u8,
            place in 0..100usize,
            value: u8,
        ) {
            let mut bytes = answer(0, &[]);
            bytes.extend(records);
            bytes[7] = count;
            let place = place % bytes.len();
            bytes[place] = value;
            for end in [bytes.len(), bytes.len() / 2] {
                if let Some(Ok(found)) = question().answer(&bytes[..end]) {
                    prop_assert!(!found.is_empty());
                }
            }
        }
    }
}
