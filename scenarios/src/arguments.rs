//! A program's command: its name, then `key=value` words.

/// A command, as it was given.
#[derive(Clone, Copy)]
pub struct Arguments<'a>(&'a str);

impl<'a> Arguments<'a> {
    /// The command in `text`.
    pub fn new(text: &'a str) -> Arguments<'a> {
        Arguments(text)
    }

    /// The program's name.
    pub fn name(&self) -> &'a str {
        self.0.split_whitespace().next().unwrap_or("boot")
    }

    /// The number given for `key`, or `default`.
    pub fn number(&self, key: &str, default: u64) -> u64 {
        self.0
            .split_whitespace()
            .filter_map(|word| word.split_once('='))
            .filter(|(name, _)| *name == key)
            .filter_map(|(_, value)| value.parse().ok())
            .next_back()
            .unwrap_or(default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_a_name_and_numbers() {
        let arguments = Arguments::new("ping rounds=7 size=x");
        assert_eq!(arguments.name(), "ping");
        assert_eq!(arguments.number("rounds", 1), 7);
        assert_eq!(arguments.number("size", 3), 3);
        assert_eq!(arguments.number("other", 5), 5);
        assert_eq!(Arguments::new("").name(), "boot");
    }
}
