//! What clients see, over records as a core has them.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::time::Duration;

use nile_abi::Instant;
use nile_interfaces::records::StoredRecord;
use nile_records::{Operation, Outcome, Record, Shard};
use nile_stl::CallResult;
use proptest::prelude::*;

use crate::answer::{Answers, Figures, Piece, refused};
use crate::request::{MOST_LINE, Request, parse};
use crate::table::{MOST_VALUE, Records};
use nile_net::memory::SEND_BYTES;

/// A core's share; between a look and a comparison, somebody else may store something.
struct Share(RefCell<Shard>, RefCell<Vec<(Vec<u8>, Vec<u8>)>>);

impl Share {
    fn apply(&self, key: &[u8], operation: Operation) -> CallResult<Outcome> {
        Ok(self.0.borrow_mut().apply(key, &operation).expect("within bounds"))
    }
}

impl Records for Share {
    fn get(&self, key: &[u8]) -> CallResult<Option<StoredRecord>> {
        Ok(match self.apply(key, Operation::Get)? {
            Outcome::Found(Record { version, value }) => {
                Some(StoredRecord { key: key.into(), version, value })
            }
            _ => None,
        })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> CallResult<()> {
        self.apply(key, Operation::Put(value.into())).map(drop)
    }

    fn remove(&self, key: &[u8]) -> CallResult<bool> {
        Ok(self.apply(key, Operation::Remove)? == Outcome::Removed)
    }

    fn compare(&self, key: &[u8], version: u64, value: &[u8]) -> CallResult<bool> {
        if let Some((key, value)) = self.1.borrow_mut().pop() {
            self.put(&key, &value)?;
        }
        let outcome = self.apply(key, Operation::Compare(version, value.into()))?;
        Ok(matches!(outcome, Outcome::Stored(_)))
    }

    fn keys(&self, after: &[u8]) -> CallResult<Vec<Vec<u8>>> {
        Ok(self.0.borrow().scan(after).take(3).map(|(key, _)| key.into()).collect())
    }
}

struct Bench {
    answers: Answers<Share>,
    now: Instant,
}

impl Bench {
    fn new() -> Bench {
        let share = Share(RefCell::new(Shard::new(1 << 20)), RefCell::default());
        Bench { answers: Answers::new(share), now: Instant::from_nanos(5_000_000_000) }
    }

    fn wait(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
    }

    /// All that is answered to bytes which come at once.
    fn say(&self, mut bytes: &[u8]) -> String {
        let mut said = Vec::new();
        while let Some(parsed) = parse(bytes, MOST_VALUE) {
            let mut from = Some(0);
            while let Some(at) = from {
                let piece = match &parsed.request {
                    Ok(request) => self.piece(request, at),
                    Err(refusal) => refused(*refusal),
                };
                assert!(piece.bytes.len() <= SEND_BYTES);
                said.extend_from_slice(&piece.bytes);
                from = piece.next;
            }
            bytes = bytes.get(parsed.bytes as usize..).unwrap_or_default();
        }
        String::from_utf8_lossy(&said).to_string()
    }

    fn piece(&self, request: &Request<'_>, from: u32) -> Piece {
        self.answers.answer(request, from, self.now, || Ok(Figures::default()))
    }
}

#[test]
fn values_are_stored_had_and_removed() {
    let bench = Bench::new();
    assert_eq!(bench.say(b"get a\r\n"), "END\r\n");
    assert_eq!(bench.say(b"set a 7 0 3\r\nabc\r\n"), "STORED\r\n");
    assert_eq!(bench.say(b"get a\n"), "VALUE a 7 3\r\nabc\r\nEND\r\n");
    assert_eq!(bench.say(b"add a 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
    assert_eq!(bench.say(b"replace b 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
    assert_eq!(bench.say(b"add b 0 0 0\r\n\r\nreplace b 1 0 1\r\nx\r\n"), "STORED\r\nSTORED\r\n");
    assert_eq!(bench.say(b"append a 9 9 2\r\nde\r\nprepend a 9 9 1\r\n-\r\n").len(), 16);
    let both = "VALUE b 1 1\r\nx\r\nVALUE a 7 6\r\n-abcde\r\nEND\r\n";
    assert_eq!(bench.say(b"get b nothing a\r\n"), both);
    assert_eq!(bench.say(b"append c 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
    assert_eq!(bench.say(b"delete a\r\ndelete a\r\nget a\r\n"), "DELETED\r\nNOT_FOUND\r\nEND\r\n");
    let stats = bench.say(b"stats\r\n");
    assert!(stats.contains("STAT get_hits 3\r\nSTAT get_misses 3\r\n"), "{stats}");
    assert!(stats.ends_with("END\r\n"));
}

#[test]
fn a_version_is_compared_and_others_are_seen() {
    let bench = Bench::new();
    bench.say(b"set a 0 0 1\r\nx\r\n");
    let said = bench.say(b"gets a\r\n");
    let version = said.lines().next().unwrap().rsplit(' ').next().unwrap().to_string();
    let cas =
        |data: &str| bench.say(std::format!("cas a 0 0 1 {version}\r\n{data}\r\n").as_bytes());
    assert_eq!(cas("y"), "STORED\r\n");
    assert_eq!(cas("z"), "EXISTS\r\n");
    assert_eq!(bench.say(b"cas none 0 0 1 5\r\nx\r\n"), "NOT_FOUND\r\n");
    assert_eq!(bench.say(b"cas a 0 0 1\r\n"), "ERROR\r\n");
    // Somebody stores 50 while this is about to store 11.
    bench.say(b"set n 0 0 2\r\n10\r\n");
    let other = (b"mc/n".to_vec(), [[0; 12].as_slice(), b"50"].concat());
    bench.answers.table().0.1.borrow_mut().push(other);
    assert_eq!(bench.say(b"incr n 1\r\nget n\r\n"), "51\r\nVALUE n 0 2\r\n51\r\nEND\r\n");
}

#[test]
fn numbers_are_counted_as_memcached_has_it() {
    let bench = Bench::new();
    assert_eq!(bench.say(b"incr n 1\r\n"), "NOT_FOUND\r\n");
    bench.say(b"set n 3 0 2\r\n99\r\nset s 0 0 1\r\nx\r\n");
    assert_eq!(bench.say(b"incr n 1\r\ndecr n 93\r\n"), "100\r\n7\r\n");
    assert_eq!(bench.say(b"get n\r\n"), "VALUE n 3 3\r\n7  \r\nEND\r\n");
    assert_eq!(bench.say(b"decr n 8\r\n"), "0\r\n");
    assert_eq!(bench.say(b"incr n 18446744073709551615\r\nincr n 1\r\n").lines().count(), 2);
    assert!(bench.say(b"get n\r\n").contains("\r\n0"));
    let no_number = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
    assert_eq!(bench.say(b"incr s 1\r\n"), no_number);
    assert_eq!(bench.say(b"incr n -1\r\n"), "CLIENT_ERROR invalid numeric delta argument\r\n");
}

#[test]
fn what_has_expired_is_not_there() {
    let mut bench = Bench::new();
    bench.say(b"set a 0 10 1\r\nx\r\nset b 0 0 1\r\ny\r\nset past 0 -1 1\r\nz\r\n");
    assert_eq!(bench.say(b"get past\r\nadd past 0 0 1\r\nw\r\n"), "END\r\nSTORED\r\n");
    bench.wait(9);
    assert!(bench.say(b"get a\r\n").starts_with("VALUE"));
    assert_eq!(bench.say(b"touch a 10\r\ntouch none 1\r\n"), "TOUCHED\r\nNOT_FOUND\r\n");
    bench.wait(9);
    assert!(bench.say(b"gat 1 a\r\n").starts_with("VALUE a 0 1\r\nx"));
    bench.wait(1);
    assert_eq!(bench.say(b"get a\r\ndelete a\r\nreplace a 0 0 1\r\nx\r\n").lines().count(), 3);
    assert_eq!(bench.say(b"get a\r\nget b\r\n"), "END\r\nVALUE b 0 1\r\ny\r\nEND\r\n");
    let date = bench.say(b"set a 0 1700000000 1\r\nx\r\ntouch b 1700000000\r\n");
    assert_eq!(date.matches("CLIENT_ERROR this node has no calendar").count(), 2, "{date}");
}

#[test]
fn a_flush_removes_what_clients_have_and_nothing_else() {
    let bench = Bench::new();
    for key in 0..20 {
        bench.say(std::format!("set key-{key} 0 0 1\r\nx\r\n").as_bytes());
    }
    let share = &bench.answers.table().0;
    share.put(b"other", b"kept").unwrap();
    share.put(b"ma", b"kept").unwrap();
    assert_eq!(bench.say(b"flush_all\r\n"), "OK\r\n");
    assert_eq!(share.0.borrow().len(), 2);
    assert_eq!(bench.say(b"flush_all 5\r\nflush_all noreply\r\nflush_all 0 noreply\r\n"), "OK\r\n");
}

#[test]
fn what_is_quiet_is_done_and_not_answered() {
    let bench = Bench::new();
    let quiet = "set a 0 0 1 noreply\r\n1\r\nadd a 0 0 1 noreply\r\nx\r\nincr a 1 noreply\r\n\
                 touch a 100 noreply\r\ndelete none noreply\r\nverbosity 1 noreply\r\n\
                 verbosity noreply\r\n";
    assert_eq!(bench.say(quiet.as_bytes()), "");
    assert_eq!(bench.say(b"get a\r\n"), "VALUE a 0 1\r\n2\r\nEND\r\n");
}

#[test]
fn many_values_come_in_pieces() {
    let bench = Bench::new();
    let value = "v".repeat(MOST_VALUE);
    let mut line = String::from("get");
    for key in 0..40 {
        let set = std::format!("set key-{key} 0 0 {MOST_VALUE}\r\n{value}\r\n");
        assert_eq!(bench.say(set.as_bytes()), "STORED\r\n");
        line += &std::format!(" key-{key}");
    }
    let said = bench.say((line + "\r\n").as_bytes());
    assert_eq!(said.matches("VALUE key-").count(), 40);
    assert_eq!(said.matches("END\r\n").count(), 1);
    assert_eq!(said.len(), 40 * (MOST_VALUE + 2) + 5 + 30 * 21 + 10 * 20);
}

#[test]
fn what_cannot_be_is_refused_and_the_rest_is_answered() {
    let bench = Bench::new();
    let long = "k".repeat(251);
    let large = MOST_VALUE + 1;
    for (request, answer) in [
        ("what\r\n", "ERROR"),
        ("\r\n", "ERROR"),
        ("get\r\n", "ERROR"),
        ("stats items\r\n", "ERROR"),
        ("verbosity\r\n", "ERROR"),
        ("set a 0 0\r\n", "ERROR"),
        ("set a x 0 1\r\n", "CLIENT_ERROR bad command line format"),
        ("set a 0 0 -1\r\n", "CLIENT_ERROR bad command line format"),
        ("set a 0 0 1\r\nlong\r\n", "CLIENT_ERROR bad data chunk"),
        (&std::format!("get {long}\r\n"), "CLIENT_ERROR bad command line format"),
        (
            &std::format!("set a 0 0 {large}\r\n{}\r\n", "x".repeat(large)),
            "SERVER_ERROR object too large for cache",
        ),
    ] {
        bench.say(b"set a 0 0 1\r\n1\r\n");
        let said = bench.say(request.as_bytes());
        assert!(said.starts_with(&std::format!("{answer}\r\n")), "{request}: {said}");
    }
    assert_eq!(bench.say(b"get a\r\n"), "END\r\n", "it is not what the client believes");
    assert!(bench.say(b"version\r\n").starts_with("VERSION 1.6.0"));
    let endless = bench.say(&[b'x'; MOST_LINE]);
    assert_eq!(endless, "CLIENT_ERROR line too long\r\n");
    assert_eq!(parse(&[b'x'; MOST_LINE - 1], MOST_VALUE), None);
}

const WORD: &str = "(get|gets|set|add|cas|incr|gat|delete|a|b|0|1|5|noreply|-1|\r\n|\r\nx\r\n)";

proptest! {
    #[test]
    fn any_bytes_are_requests_refusals_or_too_few(bytes: Vec<u8>) {
        Bench::new().say(&bytes);
    }

    #[test]
    fn nearly_requests_are_read_the_same_however_they_come(
        words in prop::collection::vec(WORD, 0..40),
        cut: prop::sample::Index,
    ) {
        let text = words.join(" ") + "\r\n";
        let cut = cut.index(text.len());
        let whole = parse(text.as_bytes(), MOST_VALUE);
        // What was enough to be read is read the same when more has come.
        if let Some(parsed) = parse(&text.as_bytes()[..cut], MOST_VALUE) {
            prop_assert_eq!(Some(parsed), whole);
        }
        Bench::new().say(text.as_bytes());
    }
}
