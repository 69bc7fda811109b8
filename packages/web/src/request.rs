//! Requests of HTTP/1.1 (RFC 9112), as far as datasets can be had by them: GET and HEAD, ranges of
//! bytes, connections that stay.

use alloc::string::String;
use alloc::vec::Vec;

use crate::answer::Status;

/// Headers that a request may have.
const MOST_HEADERS: usize = 64;

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The path, decoded, without its query.
    pub path: String,
    /// What is behind the question mark, as it came.
    pub query: String,
    /// Only the head of the answer is wanted.
    pub is_head: bool,
    /// The connection stays after the answer.
    pub stays: bool,
    /// The bytes that are wanted, if not all.
    pub range: Option<Range>,
    /// Bytes of the request.
    pub length: usize,
}

/// A range of bytes (RFC 9110, 14.1.2), before it is known how many there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Range {
    /// From this byte on, up to this one if one is named.
    From(u64, Option<u64>),
    /// The last so many.
    Last(u64),
}

impl Range {
    /// The first byte and how many, of so many; `None` if there are none.
    pub fn of(self, bytes: u64) -> Option<(u64, u64)> {
        match self {
            Range::From(first, last) if first < bytes => {
                let last = last.unwrap_or(u64::MAX).min(bytes - 1);
                (first <= last).then(|| (first, last - first + 1))
            }
            Range::Last(count) if count > 0 && bytes > 0 => {
                let count = count.min(bytes);
                Some((bytes - count, count))
            }
            _ => None,
        }
    }

    /// One range of bytes; anything else is as if it had not been said.
    fn parse(value: &[u8]) -> Option<Range> {
        let text = core::str::from_utf8(value).ok()?.trim().strip_prefix("bytes=")?;
        let (first, last) = text.split_once('-')?;
        let number = |text: &str| {
            let plain = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
            plain.then(|| text.parse::<u64>().ok()).flatten()
        };
        match (first, last) {
            ("", last) => Some(Range::Last(number(last)?)),
            (first, "") => Some(Range::From(number(first)?, None)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Range::From(first, Some(last)))
            }
        }
    }
}

/// Reads the request that `bytes` begin with; `None` if more has to come.
pub fn parse(bytes: &[u8]) -> Result<Option<Request>, Status> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Status::HeadersTooLarge),
        Err(_) => return Err(Status::BadRequest),
    };
    let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version)
    else {
        return Err(Status::BadRequest);
    };
    let is_head = method == "HEAD";
    if !is_head && method != "GET" {
        return Err(Status::MethodNotAllowed);
    }
    let mut stays = minor == 1;
    let (mut range, mut hosts) = (None, 0);
    for header in parsed.headers.iter() {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        if is("connection") {
            for word in header.value.split(|it| *it == b',') {
                let word = word.trim_ascii();
                if word.eq_ignore_ascii_case(b"close") {
                    stays = false;
                } else if word.eq_ignore_ascii_case(b"keep-alive") && minor == 0 {
                    stays = true;
                }
            }
        } else if is("host") {
            hosts += 1;
        } else if is("range") {
            range = Range::parse(header.value);
        } else if is("transfer-encoding") || is("content-length") && header.value != b"0" {
            // A body here is either a mistake or meant to be taken for another request.
            return Err(Status::BadRequest);
        }
    }
    if minor == 1 && hosts != 1 {
        return Err(Status::BadRequest);
    }
    // A proxy is asked with the whole address (RFC 9112, 3.2.2), and every server takes it.
    let target = match target.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => {
            rest.find(['/', '?']).map_or("/", |at| &rest[at..])
        }
        _ => target,
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = decode(path).filter(|it| it.starts_with('/')).ok_or(Status::BadRequest)?;
    let query = String::from(query);
    Ok(Some(Request { path, query, is_head, stays, range, length }))
}

/// Text with percent signs as what it means; `None` if that is not text.
pub fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, behind) = rest.split_first_chunk::<2>()?;
        let digit = |it: u8| char::from(it).to_digit(16);
        bytes.push((digit(digits[0])? * 16 + digit(digits[1])?) as u8);
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use proptest::prelude::*;

    fn get(text: &str) -> Request {
        parse(text.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn a_request_says_what_is_wanted() {
        let text = "GET /data/a%20b?x=1 HTTP/1.1\r\nHost: it\r\nRange: bytes=5-9\r\n\r\nnext";
        let request = get(text);
        assert_eq!((&*request.path, &*request.query), ("/data/a b", "x=1"));
        assert!(request.stays && !request.is_head && request.length == text.len() - 4);
        assert_eq!(request.range, Some(Range::From(5, Some(9))));
        for cut in 0..request.length {
            assert_eq!(parse(&text.as_bytes()[..cut]), Ok(None), "cut at {cut}");
        }
        let whole = get("GET HTTP://n1.c2:80/data/a?x HTTP/1.1\r\nHost: n1.c2:80\r\n\r\n");
        assert_eq!((&*whole.path, &*whole.query), ("/data/a", "x"));
        assert_eq!(get("GET http://it HTTP/1.1\r\nHost: it\r\n\r\n").path, "/");
        assert!(!get("GET / HTTP/1.0\r\n\r\n").stays);
        assert!(get("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").stays);
        assert!(!get("HEAD / HTTP/1.1\r\nHost: a\r\nConnection: x, close\r\n\r\n").stays);
    }

    #[test]
    fn what_is_not_for_us_is_told_apart() {
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MOST_HEADERS + 1));
        for (text, status) in [
            ("\x16\x03\x01\x02\x00\x01", Status::BadRequest),
            ("GET / HTTP/1.1\r\n\r\n", Status::BadRequest),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", Status::BadRequest),
            ("GET data HTTP/1.0\r\n\r\n", Status::BadRequest),
            ("GET ftp://it/data HTTP/1.0\r\n\r\n", Status::BadRequest),
            ("GET /%zz HTTP/1.0\r\n\r\n", Status::BadRequest),
            ("GET /%ff HTTP/1.0\r\n\r\n", Status::BadRequest),
            ("GET / HTTP/1.0\r\nContent-Length: 5\r\n\r\n", Status::BadRequest),
            ("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Status::BadRequest),
            ("POST / HTTP/1.0\r\n\r\n", Status::MethodNotAllowed),
            (&many, Status::HeadersTooLarge),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(status), "{text:?}");
        }
    }

    #[test]
    fn ranges_are_cut_to_what_there_is() {
        let range = |text: &str| Range::parse(text.as_bytes());
        assert_eq!(range("bytes=0-").unwrap().of(10), Some((0, 10)));
        assert_eq!(range("bytes=3-4").unwrap().of(10), Some((3, 2)));
        assert_eq!(range("bytes=3-99").unwrap().of(10), Some((3, 7)));
        assert_eq!(range("bytes=-4").unwrap().of(10), Some((6, 4)));
        assert_eq!(range("bytes=-99").unwrap().of(10), Some((0, 10)));
        assert_eq!(range("bytes=10-").unwrap().of(10), None);
        assert_eq!(range("bytes=0-0").unwrap().of(0), None);
        assert_eq!(range("bytes=-0").unwrap().of(10), None);
        for wrong in ["bytes=", "bytes=-", "bytes=5-3", "bytes=a-b", "lines=1-2", "bytes=1-2,4-5"] {
            assert_eq!(range(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            if let Ok(Some(request)) = parse(&bytes) {
                prop_assert!(request.length <= bytes.len() && request.path.starts_with('/'));
            }
        }
    }
}
