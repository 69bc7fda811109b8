//! What stands between the header of IPv6 and what it carries (RFC 8200, 4).

/// Bytes of the header of IPv6, and where it says what is behind it.
const HEADER: usize = 40;
const NEXT: usize = 6;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
/// Nothing follows.
pub const NOTHING: u8 = 59;
const DESTINATION: u8 = 60;

/// What a node takes.
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// Options that change nothing for whom a packet is for (RFC 8200, 4.2; RFC 2711).
const PAD_ONE: u8 = 0;
const PAD: u8 = 1;
const ALERT: u8 = 5;

/// What a packet has behind its headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Upper {
    /// This protocol, from this byte on.
    Is(u8, usize),
    /// It is to be dropped: nothing, a part of something, or what makes no sense.
    Nothing,
    /// It is to be dropped, and its sender told.
    Wrong(Problem),
}

/// What the sender is told (RFC 4443, 3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Problem {
    /// A field that is wrong: 0; a header that is not known: 1; an option: 2.
    pub code: u8,
    /// The byte of the packet that is wrong.
    pub pointer: usize,
    /// Whether he is told though the packet is for a group.
    pub of_group: bool,
}

/// What a packet of IPv6 has behind its headers, which is as long as its own header says.
pub fn upper(packet: &[u8]) -> Upper {
    look(packet).unwrap_or(Upper::Nothing)
}

/// The same; `None` if a header ends behind the packet.
fn look(packet: &[u8]) -> Option<Upper> {
    let wrong = |code, pointer| Some(Upper::Wrong(Problem { code, pointer, of_group: false }));
    let (mut said_at, mut at) = (NEXT, HEADER);
    loop {
        let kind = *packet.get(said_at)?;
        let length = match kind {
            // It is the first one or none.
            HOP_BY_HOP if at != HEADER => return wrong(1, said_at),
            HOP_BY_HOP | DESTINATION => {
                let length = 8 * (usize::from(*packet.get(at + 1)?) + 1);
                if let Some(other) = options(packet.get(..at + length)?, at + 2) {
                    return Some(other);
                }
                length
            }
            // One that has come to its end is of no interest.
            ROUTING if *packet.get(at + 3)? != 0 => return wrong(0, at + 3),
            ROUTING => {
                let length = 8 * (usize::from(*packet.get(at + 1)?) + 1);
                packet.get(..at + length)?;
                length
            }
            // The only fragment is a packet (RFC 6946).
            FRAGMENT => match packet.get(at + 2..at + 8)? {
                [0, more, ..] if more & !6 == 0 => 8,
                _ => return Some(Upper::Nothing),
            },
            NOTHING => return Some(Upper::Nothing),
            TCP | UDP | ICMPV6 => return Some(Upper::Is(kind, at)),
            _ => return wrong(1, said_at),
        };
        (said_at, at) = (at, at + length);
    }
}

/// Why a packet is dropped with these options, from `at` to the end.
fn options(packet: &[u8], mut at: usize) -> Option<Upper> {
    while let Some(kind) = packet.get(at) {
        if *kind == PAD_ONE {
            at += 1;
            continue;
        }
        let length = packet.get(at + 1).copied().map_or(usize::MAX, usize::from);
        if packet.len() - at < length.saturating_add(2) {
            return Some(Upper::Nothing);
        }
        // One that is not known says itself what is to be done.
        match kind >> 6 {
            _ if matches!(*kind, PAD | ALERT) => {}
            0 => {}
            1 => return Some(Upper::Nothing),
            asks => {
                let of_group = asks == 2;
                return Some(Upper::Wrong(Problem { code: 2, pointer: at, of_group }));
            }
        }
        at += 2 + length;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// A packet with these headers behind its own.
    fn packet(first: u8, headers: &[&[u8]]) -> Vec<u8> {
        let mut packet = std::vec![0; HEADER];
        packet[NEXT] = first;
        packet.extend(headers.concat());
        packet.extend([7; 20]);
        packet
    }

    fn wrong(code: u8, pointer: usize, of_group: bool) -> Upper {
        Upper::Wrong(Problem { code, pointer, of_group })
    }

    #[test]
    fn what_is_behind_headers_is_found_or_refused() {
        let pads: &[u8] = &[6, 0, 1, 4, 0, 0, 0, 0];
        let unknown = |kind: u8| [6, 0, 0, kind, 3, 0, 0, 0];
        assert_eq!(upper(&packet(6, &[])), Upper::Is(6, 40));
        assert_eq!(upper(&packet(HOP_BY_HOP, &[pads])), Upper::Is(6, 48));
        let chain: [&[u8]; 3] =
            [&[60, 0, 5, 2, 0, 0, 0, 0], &[44, 0, 0, 0, 0, 0, 0, 0], &[17, 0, 0, 6, 1, 2, 3, 4]];
        assert_eq!(upper(&packet(HOP_BY_HOP, &chain)), Upper::Is(17, 64));
        for (kind, said) in [
            (0x1e, Upper::Is(6, 48)),
            (0x5e, Upper::Nothing),
            (0x9e, wrong(2, 43, true)),
            (0xde, wrong(2, 43, false)),
        ] {
            assert_eq!(upper(&packet(DESTINATION, &[&unknown(kind)])), said, "{kind:x}");
        }
        // A piece, a way that is not over, an option and a header that are too long.
        for (first, header, said) in [
            (FRAGMENT, [6, 0, 0, 1, 0, 0, 0, 0], Upper::Nothing),
            (FRAGMENT, [6, 0, 1, 0, 0, 0, 0, 0], Upper::Nothing),
            (ROUTING, [6, 0, 0, 1, 0, 0, 0, 0], wrong(0, 43, false)),
            (ROUTING, [6, 0, 0, 0, 0, 0, 0, 0], Upper::Is(6, 48)),
            (ROUTING, [6, 9, 0, 0, 0, 0, 0, 0], Upper::Nothing),
            (DESTINATION, [6, 0, 1, 5, 0, 0, 0, 0], Upper::Nothing),
            (DESTINATION, [6, 9, 1, 4, 0, 0, 0, 0], Upper::Nothing),
            (DESTINATION, [0, 0, 1, 4, 0, 0, 0, 0], wrong(1, 40, false)),
            (NOTHING, [0; 8], Upper::Nothing),
            (DESTINATION, [99, 0, 1, 4, 0, 0, 0, 0], wrong(1, 40, false)),
            (132, [0; 8], wrong(1, 6, false)),
        ] {
            assert_eq!(upper(&packet(first, &[&header])), said, "{first} {header:?}");
        }
    }

    proptest! {
        #[test]
        fn any_packet_has_something_or_nothing(
            kinds in proptest::collection::vec(0..6usize, 0..8),
            noise in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let mut bytes = packet(HOP_BY_HOP, &[&noise]);
            const KINDS: [u8; 6] = [HOP_BY_HOP, ROUTING, FRAGMENT, NOTHING, DESTINATION, 6];
            for (place, kind) in kinds.into_iter().enumerate() {
                let at = HEADER + 8 * place;
                if at + 1 < bytes.len() {
                    (bytes[at], bytes[at + 1]) = (KINDS[kind], bytes[at + 1] % 5);
                }
            }
            match upper(&bytes) {
                Upper::Is(_, at) => prop_assert!(at >= HEADER && at <= bytes.len()),
                Upper::Wrong(problem) => prop_assert!(problem.pointer < bytes.len()),
                Upper::Nothing => {}
            }
        }
    }
}
