//! The Wireshark dissector, by tshark: every byte of every frame has a name, and what is wrong
//! with a frame is said.

mod frames;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use nile_abi::ethernet::HEADER_BYTES;
use nile_ipioe::ClusterKey;

use crate::support::root;

/// Frames are padded to this on the wire.
const SHORTEST: usize = 60;

/// What tshark says of one frame: each field's name, where it stands, and what it shows.
struct Shown {
    fields: Vec<Field>,
}

struct Field {
    name: String,
    place: usize,
    size: usize,
    show: String,
}

impl Shown {
    fn values(&self, name: &str) -> Vec<&str> {
        let named = self.fields.iter().filter(|field| field.name == name);
        named.map(|field| field.show.as_str()).collect()
    }

    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name == name)
    }

    /// Whether tshark or the dissector finds fault with the frame.
    fn is_faulty(&self) -> bool {
        let wrong = ["_ws.malformed", "_ws.expert", "_ws.lua.error"];
        wrong.iter().any(|name| self.has(name))
    }
}

fn padded(mut frame: Vec<u8>) -> Vec<u8> {
    frame.resize(frame.len().max(SHORTEST), 0);
    frame
}

fn tshark(arguments: &[&str]) -> String {
    let script = format!("lua_script:{}", root().join("dissector/nile.lua").display());
    // `-G` has to come first.
    let output = Command::new("tshark").args(arguments).args(["-X", &script]).output();
    let output = output.expect("tshark is installed; ./nile test does that");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("Lua"), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

/// What tshark says of each frame.
fn dissect(frames: &[Vec<u8>]) -> Vec<Shown> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("frames.pcap");
    fs::write(&file, capture(frames)).unwrap();
    let shown = dissect_file(&file);
    assert_eq!(shown.len(), frames.len());
    shown
}

fn dissect_file(file: &Path) -> Vec<Shown> {
    let document = tshark(&["-T", "pdml", "-r", file.to_str().unwrap()]);
    let packets = document.split("<packet>").skip(1);
    packets.map(|packet| Shown { fields: packet.lines().filter_map(field).collect() }).collect()
}

/// A field of a line of PDML, which has one element a line.
fn field(line: &str) -> Option<Field> {
    let attribute = |name: &str| {
        let (_, rest) = line.split_once(&format!(" {name}=\""))?;
        Some(rest.split_once('"')?.0.to_string())
    };
    let number = |name| attribute(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    let (name, show) = (attribute("name")?, attribute("show").unwrap_or_default());
    Some(Field { name, place: number("pos"), size: number("size"), show })
}

/// A capture as the switch writes it.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let words =
        |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
    let mut bytes = words(&[0xa1b2_3c4d, 4 << 16 | 2, 0, 0, 1 << 17, 1]);
    for frame in frames {
        let length = frame.len() as u32;
        bytes.extend(words(&[0, 0, length, length]));
        bytes.extend(frame);
    }
    bytes
}

/// The bytes of a frame, behind the Ethernet header, that belong to no field.
fn unnamed(shown: &Shown, frame: &[u8]) -> Vec<usize> {
    let leaf = |field: &&Field| field.name.starts_with("nile") && field.name.contains('.');
    let leaves: Vec<&Field> = shown.fields.iter().filter(leaf).collect();
    let named = |at: &usize| {
        leaves.iter().any(|field| (field.place..field.place + field.size).contains(at))
    };
    (HEADER_BYTES..frame.len()).filter(|at| !named(at)).collect()
}

fn all_frames() -> Vec<Vec<u8>> {
    let mut frames = frames::conversation(None);
    frames.extend(frames::conversation(Some(ClusterKey([8; 32]))));
    frames.push(frames::routed());
    frames.extend(frames::transfers());
    frames.into_iter().map(padded).collect()
}

#[test]
fn every_byte_has_a_name_and_every_field_is_seen() {
    let frames = all_frames();
    let mut seen = BTreeSet::new();
    for (shown, frame) in dissect(&frames).iter().zip(&frames) {
        let names = shown.fields.iter().map(|field| field.name.clone());
        let list: Vec<String> = names.collect();
        assert!(!shown.is_faulty(), "{list:?}");
        assert_eq!(unnamed(shown, frame), [] as [usize; 0], "{list:?}");
        let crc = ["nile.crc.correct", "nile_bulk.crc.correct"];
        assert!(crc.iter().any(|name| shown.values(name) == ["1"]), "{list:?}");
        seen.extend(list);
    }
    let known = tshark(&["-G", "fields"]);
    let known = known.lines().filter(|line| line.starts_with("F\t"));
    let ours = known.filter_map(|line| line.split('\t').nth(2)).filter(|name| {
        let own = name.starts_with("nile.") || name.starts_with("nile_bulk.");
        let faults = [".malformed", ".crc.wrong", ".flags.unknown"];
        own && !faults.iter().any(|fault| name.ends_with(fault))
    });
    let ours: Vec<&str> = ours.collect();
    assert!(ours.len() > 80, "{ours:?}");
    for name in ours {
        assert!(seen.contains(name), "no frame has {name}");
    }
}

#[test]
fn fields_show_what_the_sender_put_in() {
    let frames: Vec<Vec<u8>> = frames::conversation(None).into_iter().map(padded).collect();
    let shown = dissect(&frames);
    let of_opcode = |opcode: &str| {
        let opcode = opcode.to_string();
        shown.iter().filter(move |one| one.values("nile.opcode") == [opcode.as_str()])
    };
    let request = of_opcode("1").next().unwrap();
    for (name, value) in [
        ("nile.source.node", "1"),
        ("nile.source.generation", "5"),
        ("nile.destination.node", "2"),
        ("nile.source.core", "3"),
        ("nile.destination.core", "4"),
        ("nile.service", "5"),
        ("nile.method", "6"),
        ("nile.flags.timed", "1"),
    ] {
        assert_eq!(request.values(name), [value], "{name}");
    }
    // The text form of BOSML, in one frame and put together from several.
    assert_eq!(request.values("xml.tag"), ["<compute>", "<m>", "<n>"].map(escaped));
    assert_eq!(request.values("xml.cdata"), ["2", "3"]);
    let segmented = of_opcode("1").filter(|one| one.has("nile.segment.index"));
    let whole: Vec<_> = segmented.filter(|one| one.has("xml.tag")).collect();
    assert_eq!(whole.len(), 1, "the last segment shows the message");
    assert_eq!(whole[0].values("xml.tag"), ["<store>", "<text>"].map(escaped));
    let refused = of_opcode("2").find(|one| one.values("nile.status") == ["7"]);
    assert!(refused.is_some_and(|one| !one.has("nile.data")));
    assert_eq!(of_opcode("3").next().unwrap().values("nile.data.binary"), ["01:02:03"]);
    assert!(of_opcode("5").all(|one| one.has("nile.ack.bitmap")));
    assert!(of_opcode("6").all(|one| one.values("nile.nonce").len() == 1));
    let data = dissect(&frames::transfers().into_iter().map(padded).collect::<Vec<_>>());
    assert_eq!(data[8].values("nile_bulk.data.sequence"), ["2"]);
    assert_eq!(data[8].values("nile_bulk.data").len(), 1);
    assert_eq!(data[9].values("nile_bulk.data.sealed").len(), 1);
}

/// In the text form: one of several cases, without a value and with one.
#[test]
fn cases_are_shown_by_their_names() {
    let text = "<next><work>ready</work><then><pieces>2</pieces></then></next>";
    let shown = dissect(&[padded(frames::text(text))]);
    assert!(!shown[0].is_faulty());
    let tags = ["<next>", "<work>", "<then>", "<pieces>"].map(escaped);
    assert_eq!(shown[0].values("xml.tag"), tags);
    assert_eq!(shown[0].values("xml.cdata"), ["ready", "2"]);
}

fn escaped(text: &str) -> String {
    text.replace('<', "&lt;").replace('>', "&gt;")
}

#[test]
fn what_is_wrong_with_a_frame_is_said() {
    let (call, block) =
        (padded(frames::conversation(None).remove(0)), frames::transfers().remove(8));
    let changed = |frame: &[u8], at: usize, flip: u8| {
        let mut frame = frame.to_vec();
        frame[HEADER_BYTES + at] ^= flip;
        frame
    };
    let mut cases = Vec::new();
    for frame in [&call, &block] {
        cases.push((changed(frame, 8, 1), "crc.wrong"));
        cases.push((changed(frame, 0, 2), "malformed"));
        cases.push((changed(frame, 1, 4), "malformed"));
        cases.push((changed(frame, 2, 0x40), "malformed"));
        cases.push((changed(frame, 3, 1), "malformed"));
        cases.push((changed(frame, 4, 0x80), "malformed"));
        cases.push((frame[..30].to_vec(), "malformed"));
        cases.push((frame[..HEADER_BYTES].to_vec(), "malformed"));
        cases.push(([&frame[..], &[0; 30]].concat(), "malformed"));
    }
    // What Wireshark takes for no text in XML at all.
    cases.push((padded(frames::text("<")), "malformed"));
    let shown = dissect(&cases.iter().map(|case| case.0.clone()).collect::<Vec<_>>());
    for (shown, (frame, fault)) in shown.iter().zip(&cases) {
        let names = ["nile", "nile_bulk"].map(|protocol| format!("{protocol}.{fault}"));
        assert!(names.iter().any(|name| shown.has(name)), "{fault} is not said of {frame:02x?}");
    }
}

/// Numbers of Knuth's generator, each below its bound.
fn numbers(mut state: u64) -> impl FnMut(usize) -> usize {
    move |bound| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    }
}

/// Whatever the bytes are, the script comes to an end without an error of its own.
#[test]
fn bytes_that_nobody_sent_do_no_harm() {
    let frames = all_frames();
    let mut random = numbers(1);
    let mut mutated = Vec::new();
    for _ in 0..3000 {
        let mut frame = frames[random(frames.len())].clone();
        for _ in 0..=random(4) {
            let at = HEADER_BYTES + random(frame.len() - HEADER_BYTES).min(random(90));
            frame[at] = random(256) as u8;
        }
        if random(3) == 0 {
            frame.truncate(HEADER_BYTES + random(frame.len() - HEADER_BYTES));
        }
        mutated.push(frame);
    }
    let shown = dissect(&mutated);
    assert!(shown.iter().all(|one| !one.has("_ws.lua.error")));
    assert!(shown.iter().filter(|one| one.is_faulty()).count() > 1000);
}

/// Damaged as `editcap -E` damages a capture, and most of all in headers: what else of a message
/// comes is as it was sent.
#[test]
fn damaged_captures_do_no_harm() {
    const HEADERS: usize = 80;
    let talk: Vec<Vec<u8>> = frames::conversation(None).into_iter().map(padded).collect();
    for seed in 1..=4 {
        let random = RefCell::new(numbers(seed));
        let random = |bound| random.borrow_mut()(bound);
        let mut damaged = talk.iter().cycle().take(40 * talk.len()).cloned().collect::<Vec<_>>();
        for frame in damaged.iter_mut().filter(|_| random(3) == 0) {
            let (at, bit) = (random(frame.len().min(HEADERS)), random(8));
            frame[at] ^= 1 << bit;
            for byte in frame {
                if random(1000) == 0 {
                    *byte = random(256) as u8;
                }
            }
        }
        let shown = dissect(&damaged);
        assert!(shown.iter().all(|one| !one.has("_ws.lua.error")), "seed {seed}");
        assert!(shown.iter().filter(|one| one.is_faulty()).count() > damaged.len() / 5);
    }
}
