//! The words of `nile domain`.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, value_parser};
use nile_domain::{Name, UNIT};

use crate::cluster::args::{Query, Which};
use crate::size::Bytes;

#[derive(Args)]
pub struct Domain {
    #[command(subcommand)]
    pub action: DomainAction,
}

#[derive(Subcommand)]
pub enum DomainAction {
    /// Make a domain: a node of its own on cores and memory that nobody else has.
    Create {
        /// What it is called; other commands take this name for a node's.
        name: Name,
        /// How many cores it gets.
        #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=255))]
        cores: u16,
        /// How much memory it gets, in whole 2M, as 256M.
        #[arg(long, value_name = "SIZE")]
        memory: Bytes,
        /// The fewest cores that it can be left with; as many as it has, and 2 at most, if nothing
        /// is said. What it has beyond them are workers, which come and go.
        #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=255))]
        min_cores: Option<u16>,
        /// The most cores that it can be given; as many as it has if nothing is said.
        #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=255))]
        max_cores: Option<u16>,
        /// The most memory that it can be given, in whole 2M; as much as it has if nothing is said.
        #[arg(long, value_name = "SIZE")]
        max_memory: Option<Bytes>,
        /// Give it a disk of this size, as 4G, for datasets and jobs. It goes with the domain.
        #[arg(long, value_name = "SIZE", value_parser = crate::disk::size)]
        disk: Option<Bytes>,
        /// Give it so many of these disks, 1 to 8; cores with the disk role share them.
        #[arg(long, value_name = "NUMBER", requires = "disk", default_value_t = 1)]
        #[arg(value_parser = value_parser!(u16).range(1..=8))]
        disks: u16,
        /// When no core is free, it gets cores of domains with a lower number.
        #[arg(long, value_name = "0-255", default_value_t = 0)]
        priority: u8,
        /// On a PC: without the guard that keeps it to what it has, as a control.
        #[arg(long)]
        no_guard: bool,
        /// Show what it would get, and change nothing.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        options: Options,
    },
    /// Show all domains, and what is free.
    List(Options),
    /// Show one domain: what it has, and whether it runs.
    Show {
        /// Which.
        name: Name,
        #[command(flatten)]
        options: Options,
    },
    /// Give a domain that runs more cores or memory, or less.
    Resize {
        /// Which.
        name: Name,
        /// How many of its own it is to have: 3, or +1, or -1.
        #[arg(long, value_name = "N", allow_hyphen_values = true)]
        cores: Option<Change>,
        /// How much memory it is to have, in whole 2M: 256M, or +64M, or -64M. It gives back what
        /// is free.
        #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
        memory: Option<MemoryChange>,
        /// Take cores that work on something and do not leave in time.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        options: Options,
    },
    /// Limit what a domain of a PC sends to others and to the network, or what it reads and writes
    /// of its part of a disk, or say how much it gets beside others. Nothing limits one at first.
    /// What is not said stays as it is.
    Limit {
        /// Which.
        name: Name,
        /// Its part of a disk, and not what it sends.
        #[arg(long)]
        disk: bool,
        /// How much a second in the long run, as 10M, from 1K on; or `unlimited`.
        #[arg(long, value_name = "SIZE", value_parser = rate)]
        rate: Option<Bytes>,
        /// How much at once after a while without, from 2K, and of a disk 64K, to 1G; 64K at first.
        #[arg(long, value_name = "SIZE")]
        burst: Option<Bytes>,
        /// How much it gets beside others that wait, too, from 1 to 100: with 2, twice as much as
        /// one with 1, which all have at first.
        #[arg(long, value_name = "N")]
        weight: Option<u64>,
        #[command(flatten)]
        options: Options,
    },
    /// Give cores of one domain to another for a time.
    Lend {
        /// Whose they are.
        from: Name,
        /// Who gets them.
        to: Name,
        /// How many.
        #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=255))]
        cores: u16,
        /// For how long; the first command on a domain after that takes them back.
        #[arg(long = "for", value_name = "TIME", value_parser = crate::run::args::duration,
            default_value = "24h")]
        span: Duration,
        #[command(flatten)]
        options: Options,
    },
    /// Give back at once the cores that a domain has from others.
    Recall {
        /// Who has them.
        name: Name,
        #[command(flatten)]
        options: Options,
    },
    /// Have domains that run share memory: packages whose manifest says `uses region NAME` find it.
    /// Some may share it already; then these do, too.
    Share {
        /// What it is called.
        name: Name,
        /// How much, in whole 2M and at most 256M: it is free memory of the machine.
        #[arg(long, value_name = "SIZE")]
        memory: Bytes,
        /// Which domains, as web,batch.
        #[arg(long, value_name = "NAMES", value_delimiter = ',', required = true)]
        with: Vec<Name>,
        #[command(flatten)]
        options: Options,
    },
    /// Have domains share memory no more, which no package of theirs may have. It is free, and
    /// zero, when none does.
    Unshare {
        /// What it is called.
        name: Name,
        /// These domains; without it, all.
        #[arg(long, value_name = "NAMES", value_delimiter = ',')]
        from: Vec<Name>,
        #[command(flatten)]
        options: Options,
    },
    /// End a domain and take back all that it has.
    Destroy {
        /// Which.
        name: Name,
        /// Without asking it to end first, and although nothing else has what its disks have.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        options: Options,
    },
    /// End a domain and make it anew, with what it had, and hosted with what its disks have.
    Restart {
        /// Which.
        name: Name,
        /// Without asking it to end first.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        options: Options,
    },
    /// Show what domains have had and done since they were made.
    Account(AccountOptions),
    /// Show how busy domains are, and how quick, again and again until Ctrl-C.
    Top(TopOptions),
    /// Have cores go to a domain and back by what it has to do, until Ctrl-C.
    Policy {
        #[command(subcommand)]
        policy: Policy,
    },
    /// Have a domain of a machine in QEMU, made for that, reach for what is not its own: guarded,
    /// and without a guard, as a control.
    Attack(AttackOptions),
    /// Show the last lines of a domain's log.
    Logs {
        /// Which.
        name: Name,
        /// The last so many lines.
        #[arg(long, default_value_t = 256, value_parser = value_parser!(u16).range(1..=256))]
        lines: u16,
        /// Go on with what is written from now on, until Ctrl-C.
        #[arg(long)]
        follow: bool,
        #[command(flatten)]
        query: Query,
    },
}

#[derive(Args)]
pub struct AccountOptions {
    /// This one alone.
    pub name: Option<Name>,
    #[command(flatten)]
    pub options: Options,
}

#[derive(Args)]
pub struct TopOptions {
    /// How often: 10ms to 60s.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = window)]
    pub period: Duration,
    /// So many times, and not until Ctrl-C.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub times: Option<u32>,
    #[command(flatten)]
    pub options: Options,
}

#[derive(Subcommand)]
pub enum Policy {
    /// Give it a core when it is worse than one threshold, and take one when it has been better
    /// than another for a while.
    Elastic(ElasticOptions),
}

#[derive(Args)]
pub struct ElasticOptions {
    /// Who gets cores.
    #[arg(long = "for", value_name = "NAME")]
    pub name: Name,
    /// Whose they are; without it, nobody's.
    #[arg(long, value_name = "NAME")]
    pub from: Option<Name>,
    /// What is measured: how long its worker cores take to answer, or how busy they are.
    #[arg(long, value_enum, default_value = "latency")]
    pub by: By,
    /// Better than this, and it gives a core back: a time, as 200us, or a share of time, as 30%.
    #[arg(long, value_name = "THRESHOLD")]
    pub lt: Threshold,
    /// Worse than this, and it gets one: 5ms, or 80%.
    #[arg(long, value_name = "THRESHOLD")]
    pub ut: Threshold,
    /// So many percent of the answers are to be so quick.
    #[arg(long, value_name = "PERCENT", default_value_t = 99.0, value_parser = percentile)]
    pub percentile: f64,
    /// How often it is looked: 10ms to 60s.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = window)]
    pub window: Duration,
    /// So many windows in a row have to be good before a core is given back.
    #[arg(long, value_name = "WINDOWS", default_value_t = 4)]
    #[arg(value_parser = value_parser!(u32).range(1..=1024))]
    pub calm: u32,
    /// End after so long, as 10m; without it, at Ctrl-C.
    #[arg(long, value_name = "TIME", value_parser = crate::run::args::duration)]
    pub span: Option<Duration>,
    /// Tell each window, not only steps.
    #[arg(long)]
    pub verbose: bool,
    #[command(flatten)]
    pub which: Which,
    /// Print a JSON document on each line and nothing else.
    #[arg(long)]
    pub json: bool,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum By {
    Latency,
    Load,
}

/// What a measurement is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threshold {
    Time(Duration),
    Percent(u64),
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Threshold, String> {
        let Some(share) = text.strip_suffix('%') else {
            return time(text).map(Threshold::Time);
        };
        let percent = share.parse().ok().filter(|it| *it <= 100);
        percent
            .map(Threshold::Percent)
            .ok_or_else(|| format!("`{text}` is no share from 0% to 100%"))
    }
}

/// A short time: whole microseconds, milliseconds or seconds.
fn time(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "us" => 1,
        "ms" => 1000,
        "s" => 1_000_000,
        _ => 0,
    };
    let micros = number.parse::<u64>().ok().and_then(|it| it.checked_mul(scale));
    match micros {
        Some(micros @ 1..=60_000_000) => Ok(Duration::from_micros(micros)),
        _ => Err(format!("`{text}` is not a time from 1us to 60s, as 200us, 5ms or 2s")),
    }
}

/// Bytes a second; none if there is no limit.
fn rate(text: &str) -> Result<Bytes, String> {
    match text.parse() {
        _ if text == "unlimited" => Ok(Bytes(0)),
        Ok(rate @ Bytes(1024..)) => Ok(rate),
        _ => Err(format!("`{text}` is neither a size from 1K on, as 10M, nor `unlimited`")),
    }
}

fn window(text: &str) -> Result<Duration, String> {
    let least = Duration::from_millis(10);
    time(text).and_then(|it| match it >= least {
        true => Ok(it),
        false => Err(format!("`{text}` is less than 10ms")),
    })
}

fn percentile(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|it| (1.0..=100.0).contains(it));
    percent.ok_or_else(|| format!("`{text}` is not a number from 1 to 100"))
}

#[derive(Args)]
pub struct AttackOptions {
    /// This attack alone.
    pub name: Option<String>,
    /// Show the attacks, and make none.
    #[arg(long)]
    pub list: bool,
    /// Print one JSON document and nothing else.
    #[arg(long)]
    pub json: bool,
}

/// How many cores a domain is to have: so many, or so many more or fewer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    To(u16),
    By(i32),
}

impl Change {
    /// How many that is of a domain that has so many. Fewer than none is refused as none is.
    pub fn of(self, has: usize) -> u16 {
        match self {
            Change::To(cores) => cores,
            Change::By(by) => (has as i32 + by).max(0) as u16,
        }
    }
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Change, String> {
        let number = text.parse::<i32>().ok().filter(|it| (-255..=255).contains(it));
        match number {
            Some(by) if by != 0 && text.starts_with(['+', '-']) => Ok(Change::By(by)),
            Some(to @ 1..) => Ok(Change::To(to as u16)),
            _ => Err(format!("`{text}` is neither a number of cores nor a difference, as 3 or +1")),
        }
    }
}

/// How much memory a domain is to have, in units: so much, or so much more or less.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryChange {
    To(u32),
    More(u32),
    Less(u32),
}

impl MemoryChange {
    /// How many units that is of a domain that has so many. Less than nothing is refused as nothing
    /// is.
    pub fn of(self, has: u32) -> u32 {
        match self {
            MemoryChange::To(units) => units,
            MemoryChange::More(units) => has.saturating_add(units),
            MemoryChange::Less(units) => has.saturating_sub(units),
        }
    }
}

impl FromStr for MemoryChange {
    type Err = String;

    fn from_str(text: &str) -> Result<MemoryChange, String> {
        let size = text.strip_prefix(['+', '-']).unwrap_or(text);
        let Bytes(bytes) = size.parse()?;
        let units = u32::try_from(bytes / UNIT).ok().filter(|it| *it > 0);
        let units = units.filter(|_| bytes.is_multiple_of(UNIT));
        let units = units.ok_or_else(|| format!("`{text}`: memory is given in whole 2M"))?;
        Ok(match text.chars().next() {
            Some('+') => MemoryChange::More(units),
            Some('-') => MemoryChange::Less(units),
            _ => MemoryChange::To(units),
        })
    }
}

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub which: Which,
    /// Print one JSON document and nothing else.
    #[arg(long)]
    pub json: bool,
}
