//! What the kernel's command line says to this program: words `nile.NAME=VALUE` among those for the
//! kernel, which leaves them alone.

use crate::Outcome;

/// The words of a command line.
pub struct Words<'l>(&'l str);

impl<'l> Words<'l> {
    /// Those of this line.
    pub fn new(line: &'l str) -> Words<'l> {
        Words(line)
    }

    /// The value of a name; fails if it is not there.
    pub fn text(&self, name: &str) -> Outcome<&'l str> {
        let mut values = self.0.split_whitespace().filter_map(|word| {
            let (key, value) = word.strip_prefix("nile.")?.split_once('=')?;
            (key == name).then_some(value)
        });
        values.next_back().ok_or_else(|| format!("nile.{name} is not on the command line").into())
    }

    /// Whether it is the second of two words.
    pub fn choice(&self, name: &str, [first, second]: [&str; 2]) -> Outcome<bool> {
        match self.text(name)? {
            text if text == first => Ok(false),
            text if text == second => Ok(true),
            text => Err(format!("nile.{name}={text}: it is {first} or {second}").into()),
        }
    }

    /// A number that is not zero.
    pub fn number(&self, name: &str) -> Outcome<usize> {
        let text = self.text(name)?;
        let number = text.parse().ok().filter(|number| *number > 0);
        number.ok_or_else(|| format!("nile.{name}={text}: a number above 0 is wanted").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_words_are_found_among_others() {
        let words = Words::new("console=ttyS0 nile.work=sort nile.records=12 quiet nile.x=0\n");
        assert_eq!(words.text("work").unwrap(), "sort");
        assert_eq!(words.number("records").unwrap(), 12);
        assert!(words.choice("work", ["none", "sort"]).unwrap());
        assert!(!words.choice("work", ["sort", "none"]).unwrap());
        assert!(words.choice("x", ["sort", "none"]).is_err());
        for missing in ["x", "work", "console"] {
            assert!(words.number(missing).is_err(), "{missing}");
        }
    }
}
