//! The accepted figures: a file, and how far from it is too far.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// What stands at the top of the file.
const PREAMBLE: &str = "\
# What the kernel's operations cost, in hundredths of an instruction; see tests/counts of this
# package. Another compiler may choose other instructions, so its counts may be further off.
";

/// Figures that were looked at and found right.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// What built the kernel whose figures these are.
    compiler: String,
    /// How far a figure may be off, in percent.
    tolerance: f64,
    /// The same for a kernel that another compiler has built.
    tolerance_other_compiler: f64,
    counts: BTreeMap<String, u64>,
}

impl FromStr for Baseline {
    type Err = toml::de::Error;

    fn from_str(text: &str) -> Result<Baseline, toml::de::Error> {
        toml::from_str(text)
    }
}

impl fmt::Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{PREAMBLE}compiler = {:?}", self.compiler)?;
        writeln!(f, "tolerance = {:?}", self.tolerance)?;
        writeln!(f, "tolerance_other_compiler = {:?}", self.tolerance_other_compiler)?;
        writeln!(f, "\n[counts]")?;
        self.counts.iter().try_for_each(|(name, count)| writeln!(f, "{name} = {count}"))
    }
}

impl Baseline {
    /// The same with these figures.
    pub fn accept(self, counts: BTreeMap<String, u64>, compiler: String) -> Baseline {
        Baseline { counts, compiler, ..self }
    }

    /// Every figure that is not as accepted, as a line; also one that is better, because what was
    /// won can be lost again unnoticed.
    pub fn changes(&self, measured: &BTreeMap<String, u64>, compiler: &str) -> Vec<String> {
        let same = compiler == self.compiler;
        let tolerance = if same { self.tolerance } else { self.tolerance_other_compiler };
        let mut changes = Vec::new();
        for (name, accepted) in &self.counts {
            let Some(now) = measured.get(name) else {
                changes.push(format!("{name} is not measured any more"));
                continue;
            };
            let percent = 100.0 * (*now as f64 / *accepted as f64 - 1.0);
            if percent.is_nan() || percent.abs() > tolerance {
                let (now, accepted) = (*now as f64 / 100.0, *accepted as f64 / 100.0);
                changes.push(format!(
                    "{name} takes {now:.2} instructions; accepted are {accepted:.2} \
                     ({percent:+.1}%, beyond {tolerance}%)"
                ));
            }
        }
        let unknown = measured.keys().filter(|name| !self.counts.contains_key(*name));
        changes.extend(unknown.map(|name| format!("{name} is new")));
        changes
    }
}

const TEXT: &str = "compiler = \"rustc 1\"\ntolerance = 2.0\ntolerance_other_compiler = 25.0\n\
                    \n[counts]\nframe = 200000\nmessage = 10000\n";

fn measured(message: u64, frame: u64) -> BTreeMap<String, u64> {
    [("message".into(), message), ("frame".into(), frame)].into()
}

#[test]
fn a_worsening_by_five_percent_is_a_change() {
    let baseline: Baseline = TEXT.parse().unwrap();
    assert_eq!(baseline.changes(&measured(10_190, 196_010), "rustc 1"), [""; 0]);
    let changes = baseline.changes(&measured(10_500, 200_000), "rustc 1");
    let expected = "message takes 105.00 instructions; accepted are 100.00 (+5.0%, beyond 2%)";
    assert_eq!(changes, [expected]);
}

#[test]
fn so_is_an_improvement_and_a_figure_that_comes_or_goes() {
    let baseline: Baseline = TEXT.parse().unwrap();
    assert_eq!(baseline.changes(&measured(10_000, 190_000), "rustc 1").len(), 1);
    let other = [("frame".to_string(), 200_000), ("timer".to_string(), 1)].into();
    let changes = baseline.changes(&other, "rustc 1");
    assert_eq!(changes, ["message is not measured any more", "timer is new"]);
}

#[test]
fn another_compiler_may_be_further_off() {
    let baseline: Baseline = TEXT.parse().unwrap();
    assert!(baseline.changes(&measured(11_900, 200_000), "rustc 2").is_empty());
    assert_eq!(baseline.changes(&measured(12_600, 200_000), "rustc 2").len(), 1);
}

#[test]
fn accepted_figures_are_read_as_they_were_written() {
    let baseline: Baseline = TEXT.parse().unwrap();
    assert_eq!(baseline.to_string(), format!("{PREAMBLE}{TEXT}"));
    let accepted = baseline.clone().accept(measured(1, 2), "rustc 2".into());
    assert_eq!(accepted.to_string().parse(), Ok(accepted.clone()));
    assert!(accepted.changes(&measured(1, 2), "rustc 2").is_empty());
}
