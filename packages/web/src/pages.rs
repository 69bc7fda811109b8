//! What there is: `/`, `/data/NAME` and `/metrics`.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write;

use nile_interfaces::frames::FrameCounts;
use nile_interfaces::name::records::Meaning;
use nile_net::Counts;

use crate::answer::{Answer, Piece, Status, encode, escape};
use crate::data::{Data, Named};
use crate::request::{Request, decode};

/// Bytes of the longest page: it has to find room at once.
pub const MOST_BYTES: usize = 48 << 10;

/// Bytes that a row of the list has at most beside its name, whose every byte may become six.
const ROW: usize = 256;
const NAME: usize = 6;

/// The node's own figures.
#[derive(Clone, Copy)]
pub struct Figures {
    /// The node's number.
    pub node: u32,
    /// Seconds since the node has started.
    pub uptime: f64,
    /// Connections now.
    pub connections: usize,
    /// Requests that were answered.
    pub requests: u64,
    /// Bytes of datasets that were given to be sent.
    pub bytes: u64,
    /// What the network has counted here, if the package has one of its own.
    pub counts: Option<Counts>,
    /// What it has counted in the kernel.
    pub frames: FrameCounts,
}

/// The answer to a request.
pub async fn answer(request: &Request, data: &Data, figures: &Figures) -> Answer {
    match &*request.path {
        "/" => list(request, data).await,
        "/metrics" => Answer::page("text/plain; version=0.0.4", metrics(figures)),
        path => match path.strip_prefix("/data/") {
            Some(name) if !name.is_empty() => dataset(request, name, data).await,
            _ => Answer::refusal(Status::NotFound, "look at / for what there is"),
        },
    }
}

async fn dataset(request: &Request, name: &str, data: &Data) -> Answer {
    if name.len() > 128 || name.chars().any(char::is_control) {
        return Answer::refusal(Status::NotFound, "no dataset has such a name");
    }
    let (epoch, attempt, all) = match data.look(name).await {
        Ok(Named::Dataset { epoch, attempt, bytes }) => (epoch, attempt, bytes),
        Ok(Named::Parts(parts)) => {
            let why = format!("it is an output in {parts} parts, which are not served");
            return Answer::refusal(Status::NotFound, &why);
        }
        Ok(Named::Nothing) => return Answer::refusal(Status::NotFound, "no such dataset"),
        Err(error) => return Answer::refusal(Status::Unavailable, &format!("{error}")),
    };
    let (first, bytes) = match request.range.map(|range| range.of(all)) {
        None => (0, all),
        Some(Some(range)) => range,
        Some(None) => return Answer::no_such_bytes(all),
    };
    Answer::dataset(Piece { name: name.into(), epoch, attempt, first, bytes }, all)
}

async fn list(request: &Request, data: &Data) -> Answer {
    let after = request.query.strip_prefix("after=").and_then(decode).unwrap_or_default();
    let (names, mut more) = match data.list(&after).await {
        Ok(listed) => listed,
        Err(error) => return Answer::refusal(Status::Unavailable, &format!("{error}")),
    };
    let mut page = String::from(
        "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>Datasets</title>\n<h1>Datasets</h1>\n\
         <table>\n<tr><th>name<th>bytes\n",
    );
    let mut last = None;
    // What begins with a point jobs keep for themselves.
    for it in names.iter().filter(|it| !it.name.starts_with('.')) {
        if page.len() + ROW + 2 * NAME * it.name.len() > MOST_BYTES {
            more = last;
            break;
        }
        last = Some(it.name.clone());
        let (path, shown) = (encode(&it.name), escape(&it.name));
        let _ = match &it.entry.meaning {
            Meaning::Dataset { facts, .. } => {
                writeln!(page, "<tr><td><a href=\"/data/{path}\">{shown}</a><td>{}", facts.bytes)
            }
            Meaning::Output { parts, facts, .. } => {
                writeln!(page, "<tr><td>{shown}<td>{} in {parts} parts", facts.bytes)
            }
            Meaning::Absent | Meaning::Making { .. } => Ok(()),
        };
    }
    page.push_str("</table>\n");
    if let Some(more) = more {
        let _ = writeln!(page, "<a href=\"/?after={}\">more</a>", encode(&more));
    }
    Answer::page("text/html; charset=utf-8", page)
}

/// The figures in the text form that Prometheus reads.
fn metrics(figures: &Figures) -> String {
    let Figures { counts, frames, .. } = figures;
    let mut rows: Vec<(&str, &str, u64)> = vec![
        ("nile_web_connections", "gauge", figures.connections as u64),
        ("nile_web_requests_total", "counter", figures.requests),
        ("nile_web_dataset_bytes_total", "counter", figures.bytes),
        ("nile_frames_received_total", "counter", frames.received),
        ("nile_frames_sent_total", "counter", frames.sent),
        ("nile_frames_dropped_total", "counter", frames.dropped),
        ("nile_frames_refused_total", "counter", frames.refused),
    ];
    if let Some(counts) = counts {
        rows.extend([
            ("nile_tcp_accepted_total", "counter", counts.tcp.accepted),
            ("nile_tcp_resumed_total", "counter", counts.tcp.resumed),
            ("nile_tcp_ended_total", "counter", counts.tcp.ended),
            ("nile_tcp_crowded_total", "counter", counts.tcp.crowded),
            ("nile_tcp_strays_total", "counter", counts.tcp.strays),
            ("nile_tcp_malformed_total", "counter", counts.tcp.malformed),
            ("nile_ip_ignored_frames_total", "counter", counts.ignored),
        ]);
    }
    let mut text = String::from("# TYPE nile_uptime_seconds gauge\n");
    let node = figures.node;
    let _ = writeln!(text, "nile_uptime_seconds{{node=\"n{node}\"}} {:.3}", figures.uptime);
    for (name, kind, value) in rows {
        let _ = writeln!(text, "# TYPE {name} {kind}\n{name}{{node=\"n{node}\"}} {value}");
    }
    text
}
