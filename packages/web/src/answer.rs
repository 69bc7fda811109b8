//! Answers: their heads, and the pages that are made here.

use alloc::format;
use alloc::string::String;
use core::fmt::Write;

/// How a request is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// All of it.
    Ok = 200,
    /// A range of it.
    PartialContent = 206,
    /// It is no request.
    BadRequest = 400,
    /// There is no such thing.
    NotFound = 404,
    /// There is nothing but to read.
    MethodNotAllowed = 405,
    /// It has not come whole in time.
    RequestTimeout = 408,
    /// There are no such bytes.
    RangeNotSatisfiable = 416,
    /// Its head is too long.
    HeadersTooLarge = 431,
    /// It cannot be had now.
    Unavailable = 503,
}

impl Status {
    fn phrase(self) -> &'static str {
        match self {
            Status::Ok => "OK",
            Status::PartialContent => "Partial Content",
            Status::BadRequest => "Bad Request",
            Status::NotFound => "Not Found",
            Status::MethodNotAllowed => "Method Not Allowed",
            Status::RequestTimeout => "Request Timeout",
            Status::RangeNotSatisfiable => "Range Not Satisfiable",
            Status::HeadersTooLarge => "Request Header Fields Too Large",
            Status::Unavailable => "Service Unavailable",
        }
    }
}

/// What is behind the head.
pub enum Body {
    /// A page.
    Page(String),
    /// Bytes of a dataset.
    Dataset(Piece),
}

/// A range of a version of a dataset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The dataset.
    pub name: String,
    /// Its version.
    pub epoch: u64,
    /// Its version.
    pub attempt: u32,
    /// The first byte.
    pub first: u64,
    /// How many.
    pub bytes: u64,
}

/// An answer.
pub struct Answer {
    /// How it went.
    pub status: Status,
    kind: &'static str,
    /// Headers of this answer alone, each with its end of a line.
    headers: String,
    /// What is behind the head.
    pub body: Body,
}

impl Answer {
    /// A page of this kind.
    pub fn page(kind: &'static str, text: String) -> Answer {
        Answer { status: Status::Ok, kind, headers: String::new(), body: Body::Page(text) }
    }

    /// That it is not answered as wanted, and why.
    pub fn refusal(status: Status, why: &str) -> Answer {
        let text = format!("{} {}: {why}\n", status as u16, status.phrase());
        let headers = match status {
            Status::MethodNotAllowed => String::from("Allow: GET, HEAD\r\n"),
            _ => String::new(),
        };
        let kind = "text/plain; charset=utf-8";
        Answer { status, kind, headers, body: Body::Page(text) }
    }

    /// A dataset of so many bytes, or a piece of it.
    pub fn dataset(piece: Piece, all: u64) -> Answer {
        let (mut status, mut headers) = (Status::Ok, String::from("Accept-Ranges: bytes\r\n"));
        // What a version consists of never changes.
        let _ = write!(headers, "ETag: \"{}-{}\"\r\n", piece.epoch, piece.attempt);
        if piece.bytes < all {
            status = Status::PartialContent;
            let last = (piece.first + piece.bytes).saturating_sub(1);
            let _ = write!(headers, "Content-Range: bytes {}-{last}/{all}\r\n", piece.first);
        }
        Answer { status, kind: "application/octet-stream", headers, body: Body::Dataset(piece) }
    }

    /// That a dataset of so many bytes has none of those that are wanted.
    pub fn no_such_bytes(all: u64) -> Answer {
        let answer = Answer::refusal(Status::RangeNotSatisfiable, &format!("it has {all} bytes"));
        Answer { headers: format!("Content-Range: bytes */{all}\r\n"), ..answer }
    }

    /// Bytes of the body.
    pub fn length(&self) -> u64 {
        match &self.body {
            Body::Page(text) => text.len() as u64,
            Body::Dataset(piece) => piece.bytes,
        }
    }

    /// The head.
    pub fn head(&self, stays: bool) -> String {
        let connection = if stays { "keep-alive" } else { "close" };
        format!(
            "HTTP/1.1 {} {}\r\nServer: NileOS\r\nContent-Type: {}\r\nContent-Length: {}\r\n\
             {}Connection: {connection}\r\n\r\n",
            self.status as u16,
            self.status.phrase(),
            self.kind,
            self.length(),
            self.headers,
        )
    }
}

/// Text that is nothing but text in HTML.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Text as a part of a path.
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                encoded.push(char::from(byte));
            }
            byte => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::decode;

    #[test]
    fn a_path_comes_back_as_it_was() {
        for name in ["access.log", "a b/ü?&%#", "\u{7f}"] {
            let encoded = encode(name);
            assert!(encoded.is_ascii() && !encoded.contains(' '));
            assert_eq!(decode(&encoded).as_deref(), Some(name));
        }
        assert_eq!(escape("<a href=\"x\">&\n"), "&lt;a href=&quot;x&quot;&gt;&amp;\u{fffd}");
    }

    #[test]
    fn a_head_says_how_long_the_body_is() {
        let piece = Piece { name: "a".into(), epoch: 3, attempt: 1, first: 2, bytes: 5 };
        let head = Answer::dataset(piece.clone(), 10).head(true);
        assert!(head.starts_with("HTTP/1.1 206 ") && head.ends_with("\r\n\r\n"));
        assert!(head.contains("Content-Length: 5\r\n") && head.contains("bytes 2-6/10\r\n"));
        let whole = Piece { first: 0, bytes: 10, ..piece };
        assert!(Answer::dataset(whole, 10).head(false).contains("200 OK"));
        let refusal = Answer::refusal(Status::MethodNotAllowed, "no").head(false);
        assert!(refusal.contains("Allow: GET, HEAD\r\n") && refusal.contains("Connection: close"));
    }
}
