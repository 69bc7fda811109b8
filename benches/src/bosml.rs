//! A request of 1 KiB: reading its text beside quick-xml's pull parser, which gives the tags and
//! texts of the same bytes, looks nothing up and builds nothing; and reading its binary form
//! beside its text.

use std::hint::black_box;

use nile_bosml::schema::{Element, Parameter, Type};
use nile_bosml::{
    Bytes, Core, Decode, Encode, Error, Reader, Typed, Writer, binary_to_text, text_to_binary,
};
use quick_xml::events::Event;

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::rounds;

/// Requests that a contestant reads in its turn: some milliseconds.
const REQUESTS: u32 = 1000;

/// Fewer for the control, which misses by far.
const ROUNDS: [usize; 2] = [101, 11];

const METHOD: &str = "submit";

const PARAMETERS: [Parameter<'static>; 10] = [
    named("job", String::TYPE),
    named("owner", String::TYPE),
    named("epoch", u64::TYPE),
    named("attempt", u16::TYPE),
    named("master", Core::TYPE),
    named("replace", bool::TYPE),
    named("ratio", f64::TYPE),
    named("note", String::TYPE),
    named("digest", Bytes::TYPE),
    named("blocks", Type::List(Element::Static(&Type::Uint64))),
];

const fn named(name: &'static str, ty: Type<'static>) -> Parameter<'static> {
    use std::borrow::Cow::Borrowed;
    let doc = Borrowed("");
    Parameter { name: Borrowed(name), doc, ty, range: None, encoded: true, encrypted: false }
}

/// What a method gets.
#[derive(PartialEq, Debug)]
struct Request<'a> {
    job: &'a str,
    owner: &'a str,
    epoch: u64,
    attempt: u16,
    master: Core,
    replace: bool,
    ratio: f64,
    note: &'a str,
    digest: Bytes<'a>,
    blocks: Vec<u64>,
}

impl<'a> Request<'a> {
    fn decode(bytes: &'a [u8]) -> Result<Request<'a>, Error> {
        let mut input = Reader::new(bytes);
        let request = Request {
            job: Decode::decode(&mut input)?,
            owner: Decode::decode(&mut input)?,
            epoch: Decode::decode(&mut input)?,
            attempt: Decode::decode(&mut input)?,
            master: Decode::decode(&mut input)?,
            replace: Decode::decode(&mut input)?,
            ratio: Decode::decode(&mut input)?,
            note: Decode::decode(&mut input)?,
            digest: Decode::decode(&mut input)?,
            blocks: Decode::decode(&mut input)?,
        };
        input.finish()?;
        Ok(request)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        self.job.encode(&mut out);
        self.owner.encode(&mut out);
        self.epoch.encode(&mut out);
        self.attempt.encode(&mut out);
        self.master.encode(&mut out);
        self.replace.encode(&mut out);
        self.ratio.encode(&mut out);
        self.note.encode(&mut out);
        self.digest.encode(&mut out);
        self.blocks.encode(&mut out);
        out.into_bytes().expect("about a kilobyte")
    }
}

/// A request whose text has 1 KiB, in both forms.
fn request() -> (Vec<u8>, String) {
    let note = "sort by key & keep the order of equal records; take what is left of the last run. ";
    let mut request = Request {
        job: "terasort",
        owner: "analytics",
        epoch: 1_718_000_000_123,
        attempt: 3,
        master: "n12.c3".parse().expect("a core"),
        replace: true,
        ratio: 0.618_034,
        note: "",
        digest: Bytes((0..32).collect::<Vec<u8>>().into()),
        blocks: (0..20).map(|at| 7_000_000_019 * at + 4096).collect(),
    };
    let text_of = |bytes: &[u8]| binary_to_text(&PARAMETERS, METHOD, bytes).expect("valid");
    let missing = 1024 - text_of(&request.encode()).len();
    // The one character in the note that is escaped takes four more.
    let note = note.repeat(8);
    let end = (1..missing).find(|end| *end + 4 * note[..*end].matches('&').count() == missing);
    request.note = &note[..end.expect("a note is as long as one likes")];
    let bytes = request.encode();
    let text = text_of(&bytes);
    (bytes, text)
}

/// What quick-xml sees in a document: its tags and texts, with their bytes.
fn pull(text: &str) -> usize {
    let mut reader = quick_xml::Reader::from_str(text);
    let mut seen = 0;
    loop {
        match reader.read_event().expect("well-formed") {
            Event::Eof => return seen,
            event => seen += event.len(),
        }
    }
}

/// See the module. The control reads the text from its beginning for each element, and the binary
/// form by way of the text.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let (bytes, text) = request();
    assert_eq!(text.len(), 1024);
    let control = mode == Mode::Control;
    let elements = text.matches("</").count();
    let to_binary = |text: &str| text_to_binary(&PARAMETERS, METHOD, text).expect("valid");
    let times = rounds::contest(
        ROUNDS[usize::from(control)],
        REQUESTS,
        &mut [
            &mut || {
                repeat(|| {
                    for _ in 0..if control { elements } else { 1 } {
                        black_box(to_binary(black_box(&text)));
                    }
                })
            },
            &mut || {
                repeat(|| {
                    black_box(pull(black_box(&text)));
                })
            },
            &mut || {
                repeat(|| {
                    if control {
                        let text = binary_to_text(&PARAMETERS, METHOD, &bytes).expect("valid");
                        black_box(Request::decode(&to_binary(&text)).expect("valid"));
                    } else {
                        black_box(Request::decode(black_box(&bytes)).expect("valid"));
                    }
                })
            },
            &mut || {
                repeat(|| {
                    let bytes = to_binary(black_box(&text));
                    black_box(Request::decode(&bytes).expect("valid"));
                })
            },
        ],
    );
    let [ours, quick_xml, binary, both] = [0, 1, 2, 3].map(|contestant| times.median(contestant));
    eprintln!("  text of {} bytes: {ours:.0} ns, quick-xml {quick_xml:.0} ns", text.len());
    eprintln!("  binary form of {} bytes: {binary:.0} ns, from text {both:.0} ns", bytes.len());
    let peer = |name: &str, value| Peer { name: name.into(), value };
    let figure = |name: &str, ours, peer, ratio, target| {
        Figure::with_ratio(name, "ns", ours, peer, ratio, target)
    };
    Ok(vec![
        figure(
            "bosml-text",
            ours,
            peer("quick-xml", quick_xml),
            times.ratio(0, 1),
            Target::AtMost(1.0),
        ),
        figure(
            "bosml-binary",
            binary,
            peer("text form", both),
            times.ratio(2, 3),
            Target::AtMost(0.2),
        ),
    ])
}

fn repeat(work: impl Fn()) {
    (0..REQUESTS).for_each(|_| work());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_the_same_request() {
        let (bytes, text) = request();
        assert_eq!(text.len(), 1024);
        assert_eq!(text_to_binary(&PARAMETERS, METHOD, &text).unwrap(), bytes);
        assert_eq!(Request::decode(&bytes).unwrap().encode(), bytes);
    }

    #[test]
    fn the_peer_reads_the_whole_text() {
        let (_, text) = request();
        // All but the signs `<`, `>` and `/` of its tags, and `&` and `;` of its references.
        let tags = text.matches(['<', '>']).count() + text.matches("</").count();
        let signs = tags + 2 * text.matches('&').count();
        assert!(pull(&text) >= text.len() - signs, "{} of {}", pull(&text), text.len());
    }
}
