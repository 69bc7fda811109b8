//! Edges as lines of text.

use nile_interfaces::graph::EdgeEvent;

/// The edge of a line, which is the `sequence`-th of its source; `None` if it is empty or a
/// comment, which begins with `#`. One without a time happens at `now`.
pub fn edge(line: &str, sequence: u64, now: u64) -> Result<Option<EdgeEvent>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (removes, rest) = match line.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let fields: Vec<&str> = match rest.contains(',') {
        true => rest.split(',').map(str::trim).collect(),
        false => rest.split_whitespace().collect(),
    };
    let number = |text: &str| {
        text.parse::<u64>().map_err(|_| format!("{text:?} is no number from 0 to {}", u64::MAX))
    };
    let (from, to, time) = match fields[..] {
        [from, to] => (number(from)?, number(to)?, now),
        [from, to, time] => (number(from)?, number(to)?, number(time)?),
        _ => return Err(format!("{} fields, not two vertices and perhaps a time", fields.len())),
    };
    Ok(Some(EdgeEvent { sequence, time, from, to, removes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_edges_that_come_or_go() {
        let known =
            |line| edge(line, 7, 107).map(|it| it.map(|it| (it.from, it.to, it.time, it.removes)));
        assert_eq!(known("1 2"), Ok(Some((1, 2, 107, false))));
        assert_eq!(known(" 1\t2 30\r"), Ok(Some((1, 2, 30, false))));
        assert_eq!(known("-1, 2 ,30"), Ok(Some((1, 2, 30, true))));
        assert_eq!(known("- 5 6"), Ok(Some((5, 6, 107, true))));
        assert_eq!([known(""), known("  "), known("# 1 2")], [Ok(None), Ok(None), Ok(None)]);
        for wrong in ["1", "1 2 3 4", "a b", "1 -2", "1,,2", "18446744073709551616 1"] {
            assert!(known(wrong).is_err(), "{wrong}");
        }
    }
}
