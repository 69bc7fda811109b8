//! What both sides of an iperf3 test say, on the connection that controls it: the client's cookie,
//! then states of one byte, and documents of JSON with four bytes of length before them, the
//! highest first. Each connection with data begins with the same cookie.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};

/// Bytes of a cookie: what tells a test from others.
pub const COOKIE_BYTES: usize = 37;

/// Bytes of the longest document that is taken.
pub const MOST_BYTES: usize = 64 << 10;

/// Connections with data of one test.
pub const MOST_STREAMS: usize = 32;

/// How a test stands, as each side tells the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i8)]
pub enum State {
    /// The server has no time.
    AccessDenied = -1,
    /// The server has failed; two numbers say why.
    ServerError = -2,
    /// Data is about to be sent.
    TestStart = 1,
    /// It is sent.
    TestRunning = 2,
    /// The client has had enough.
    TestEnd = 4,
    /// The client is to say what it wants.
    ParamExchange = 9,
    /// The client is to open the connections with data.
    CreateStreams = 10,
    /// The client gives up.
    ClientTerminate = 12,
    /// Both say what they have counted, the client first.
    ExchangeResults = 13,
    /// The client is to show them.
    DisplayResults = 14,
    /// The client has.
    Done = 16,
}

/// What a client wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// Connections in each direction.
    pub parallel: usize,
    /// Whether the client sends data.
    pub client_sends: bool,
    /// Whether the server does.
    pub server_sends: bool,
    /// Seconds at the beginning that do not count.
    pub omit: u64,
}

/// Why a test is not to be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It is no document, or not one of parameters.
    Malformed,
    /// It is not over TCP, or has more connections than there can be.
    Unsupported,
}

impl Parameters {
    /// What a document says.
    pub fn parse(document: &[u8]) -> Result<Parameters, Refused> {
        let document: Value = serde_json::from_slice(document).map_err(|_| Refused::Malformed)?;
        let wanted = document.as_object().ok_or(Refused::Malformed)?;
        let says = |key: &str| wanted.get(key).is_some_and(|it| it == true || *it == 1);
        let number = |key: &str, usual| match wanted.get(key) {
            Some(value) => value.as_u64().ok_or(Refused::Malformed),
            None => Ok(usual),
        };
        let parallel = number("parallel", 1)?;
        let both = says("bidirectional");
        let most = MOST_STREAMS as u64 / if both { 2 } else { 1 };
        if says("udp") || says("sctp") || !(1..=most).contains(&parallel) {
            return Err(Refused::Unsupported);
        }
        let is_reverse = says("reverse");
        Ok(Parameters {
            parallel: parallel as usize,
            client_sends: both || !is_reverse,
            server_sends: both || is_reverse,
            omit: number("omit", 0)?,
        })
    }
}

/// What one connection has come to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Counted {
    /// Bytes that were received or sent.
    pub bytes: u64,
    /// Seconds that it took.
    pub seconds: f64,
}

/// The server's results: of each connection, in the order in which they were opened. How much of
/// the core was used a package does not know.
pub fn results(streams: &[Counted], server_sends: bool) -> Vec<u8> {
    let stream = |(place, counted): (usize, &Counted)| {
        json!({
            // The first is 1, the others are from 3 on.
            "id": if place == 0 { 1 } else { place + 2 },
            "bytes": counted.bytes,
            "retransmits": -1,
            "jitter": 0,
            "errors": 0,
            "omitted_errors": 0,
            "packets": 0,
            "omitted_packets": 0,
            "start_time": 0,
            "end_time": counted.seconds,
        })
    };
    let streams: Vec<Value> = streams.iter().enumerate().map(stream).collect();
    let document = json!({
        "cpu_util_total": 0,
        "cpu_util_user": 0,
        "cpu_util_system": 0,
        // -1: the side that sends does not know how often it has sent again.
        "sender_has_retransmits": if server_sends { 0 } else { -1 },
        "congestion_used": "reno",
        "streams": streams,
    });
    let text: String = document.to_string();
    let mut bytes = Vec::from((text.len() as u32).to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_read_as_clients_ask_for_it() {
        let usual = br#"{"tcp":true,"omit":0,"time":10,"num":0,"blockcount":0,"parallel":1,
            "len":131072,"pacing_timer":1000,"client_version":"3.12"}"#;
        let one = Parameters { parallel: 1, client_sends: true, server_sends: false, omit: 0 };
        assert_eq!(Parameters::parse(usual), Ok(one));
        let reverse = br#"{"tcp":true,"omit":2,"parallel":4,"reverse":true}"#;
        let four = Parameters { parallel: 4, client_sends: false, server_sends: true, omit: 2 };
        assert_eq!(Parameters::parse(reverse), Ok(four));
        let both = Parameters::parse(br#"{"tcp":true,"parallel":16,"bidirectional":1}"#).unwrap();
        assert!(both.client_sends && both.server_sends && both.parallel == 16);
        for wrong in [&b""[..], b"[]", b"{", b"7", br#"{"parallel":-1}"#, br#"{"parallel":"x"}"#] {
            assert_eq!(Parameters::parse(wrong), Err(Refused::Malformed), "{wrong:?}");
        }
        for other in [&br#"{"udp":true}"#[..], br#"{"parallel":0}"#, br#"{"parallel":33}"#] {
            assert_eq!(Parameters::parse(other), Err(Refused::Unsupported), "{other:?}");
        }
    }

    #[test]
    fn results_have_their_length_before_them() {
        let counted = Counted { bytes: 1 << 40, seconds: 1.5 };
        let bytes = results(&[counted; 3], false);
        let (length, text) = bytes.split_first_chunk().unwrap();
        assert_eq!(u32::from_be_bytes(*length) as usize, text.len());
        let document: Value = serde_json::from_slice(text).unwrap();
        let ids: Vec<_> =
            document["streams"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
        assert_eq!(ids, [1, 3, 4]);
        assert_eq!(document["streams"][2]["bytes"], 1u64 << 40);
    }
}
