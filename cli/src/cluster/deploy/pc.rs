//! The kernel image of a PC as it goes to a running node: not the file that machines boot, but what
//! a core needs of it, in pieces (docs/files.md).

use elf::ElfBytes;
use elf::abi::PT_LOAD;
use elf::endian::LittleEndian;
use nile_abi::{IMAGE_HEAD, ImageDigest};
use nile_bosml::Bytes;
use nile_interfaces::core_manager::CoreManagerClient;

use crate::cluster::session::Session;
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::known::Target;

/// How the first page of an image begins.
const MAGIC: &[u8] = b"NILEKERN";

/// Bytes of a call.
const PIECE: usize = 48 << 10;

/// An image.
pub struct Image {
    bytes: Vec<u8>,
    name: u64,
}

impl Image {
    /// What a core needs of a bootable file; `None` if it is none.
    pub fn of(file: &[u8]) -> Option<Image> {
        let file = ElfBytes::<LittleEndian>::minimal_parse(file).ok()?;
        let loaded = file.segments()?.iter().filter(|it| it.p_type == PT_LOAD);
        let loaded: Vec<(u64, &[u8])> =
            loaded.filter_map(|it| Some((it.p_vaddr, file.segment_data(&it).ok()?))).collect();
        let is_first = |(_, bytes): &&(u64, &[u8])| bytes.starts_with(MAGIC);
        let head = loaded.iter().find(is_first)?.1.get(..IMAGE_HEAD)?;
        let word = |at: usize| u64::from_le_bytes(head.as_chunks::<8>().0[at]);
        let mut bytes = head.to_vec();
        // Its code, its constants, the initial values of its statics: see the platform's `Head`.
        for (start, end) in [(word(3), word(4)), (word(5), word(6)), (word(13), word(14))] {
            let part = |(at, bytes): &(u64, &'_ [u8])| {
                let offset = usize::try_from(start.checked_sub(*at)?).ok()?;
                let length = usize::try_from(end.checked_sub(start)?).ok()?;
                Some(bytes.get(offset..)?.get(..length)?.to_vec())
            };
            bytes.extend(loaded.iter().find_map(part)?);
        }
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let name = words.fold(ImageDigest::EMPTY, ImageDigest::with).name();
        Some(Image { bytes, name })
    }

    /// As nodes call it.
    pub fn name(&self) -> u64 {
        self.name
    }

    /// Sends it to a node, for one of its cores.
    pub fn send(
        &self,
        session: &mut Session,
        target: Target,
        core: u16,
    ) -> Result<Result<(), CallFailed>, Failure> {
        let whole = self.bytes.len() as u64;
        for (number, piece) in self.bytes.chunks(PIECE).enumerate() {
            let at = (number * PIECE) as u64;
            let taken = session.peer.work(session.patience, async |clients| {
                let manager = clients.at::<CoreManagerClient>(target);
                let taken = manager.take_image(core, whole, at, Bytes(piece.into())).await;
                taken.map_err(CallFailed::from)
            })?;
            if let Err(failed) = taken {
                return Ok(Err(failed));
            }
        }
        Ok(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bootable file with these segments, by address.
    fn elf(segments: &[(u64, &[u8])]) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
        let after = 64 + 56 * segments.len();
        file.extend([[0; 8], 64u64.to_le_bytes(), [0; 8]].concat());
        file.extend([0, 0, 0, 0, 64, 0, 56, 0, segments.len() as u8, 0, 64, 0, 0, 0, 0, 0]);
        let mut offset = after as u64;
        for (at, bytes) in segments {
            let length = bytes.len() as u64;
            file.extend([1, 0, 0, 0, 4, 0, 0, 0]);
            for word in [offset, *at, *at, length, length, 8] {
                file.extend(word.to_le_bytes());
            }
            offset += length;
        }
        assert_eq!(file.len(), after);
        segments.iter().for_each(|(_, bytes)| file.extend_from_slice(bytes));
        file
    }

    fn head(spans: [(u64, u64); 3]) -> Vec<u8> {
        let mut words = [0; IMAGE_HEAD / 8];
        words[0] = u64::from_le_bytes(*b"NILEKERN");
        for (at, (start, end)) in [3, 5, 13].into_iter().zip(spans) {
            (words[at], words[at + 1]) = (start, end);
        }
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn what_a_core_needs_is_the_head_and_three_parts() {
        let good = [(0x1000, 0x1008), (0x2010, 0x2020), (0x3000, 0x3000)];
        let image = |spans, code: &[u8]| {
            let first = head(spans);
            let image = Image::of(&elf(&[
                (0x10, b"before it is mapped"),
                (0x10_0000, &first),
                (0x1000, code),
                (0x2000, &[2; 64]),
                (0x3000, &[3; 8]),
            ]));
            image.map(|it| (it.bytes[IMAGE_HEAD..].to_vec(), it.name))
        };
        let (bytes, name) = image(good, &[1; 16]).expect("it is one");
        assert_eq!(bytes, [&[1; 8][..], &[2; 16]].concat());
        let (_, other) = image(good, &[4; 16]).expect("as well");
        assert!(name != other && name != 0);
        for spans in [
            [(0x1000, 0x1018), good[1], good[2]],
            [(0x900_0000, 0x900_0008), good[1], good[2]],
            [good[0], (0x2020, 0x2010), good[2]],
            [good[0], good[1], (0, u64::MAX)],
        ] {
            assert!(image(spans, &[1; 16]).is_none(), "{spans:x?}");
        }
    }

    #[test]
    fn what_no_machine_boots_is_none() {
        for bytes in [&b""[..], b"#!/bin/sh\n", &elf(&[]), &elf(&[(0, b"NILEKERN")])] {
            assert!(Image::of(bytes).is_none());
        }
        let own = std::fs::read("/proc/self/exe").expect("this program");
        assert!(Image::of(&own).is_none());
    }
}
