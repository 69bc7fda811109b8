//! The known name that is nearest to a wrong one, for messages that suggest it.

/// The one of `known` that `name` most probably stands for, if any is alike.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |other: &str| strsim::jaro_winkler(&name.to_lowercase(), &other.to_lowercase());
    let alike = known.into_iter().map(|other| (likeness(other), other));
    let best = alike.max_by(|one, other| one.0.total_cmp(&other.0))?;
    (best.0 > 0.7).then_some(best.1)
}

/// What to add to a message that `name` is unknown: the nearest name, or all that there are.
pub fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(name, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => match known.into_iter().collect::<Vec<_>>() {
            known if known.is_empty() => "there is none".into(),
            known => format!("there are: {}", known.join(", ")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_understood() {
        let known = ["ackermann.compute", "calls", "gossip", "bulk"];
        for (wrong, right) in [
            ("gosip", "gossip"),
            ("BULK", "bulk"),
            ("call", "calls"),
            ("ackerman.compute", "ackermann.compute"),
        ] {
            assert_eq!(nearest(wrong, known), Some(right));
        }
        assert_eq!(nearest("xyzzy", known), None);
        assert_eq!(suggestion("xyz", ["calls", "bulk"]), "there are: calls, bulk");
        assert_eq!(suggestion("xyz", []), "there is none");
    }
}
