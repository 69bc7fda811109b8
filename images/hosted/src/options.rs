//! The command line of the image. People use `nile boot --machine hosted`, which calls this.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use lexopt::prelude::*;
use nile_abi::MAX_CORES;
use nile_abi::ethernet::STANDARD_FRAME;
use nile_kernel::ConfigError;
use nile_platform_hosted::samples::MOST_HERTZ;
use nile_platform_hosted::{DiskFile, Outside, SampleFile};

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Cores of the node.
    pub cores: usize,
    /// Bytes of its memory.
    pub memory: u64,
    /// Bytes that it can be given; no more than it has if they are fewer.
    pub most_memory: u64,
    /// Its configuration file; every setting has a default.
    pub config: Option<PathBuf>,
    /// The archive of its packages.
    pub packages: Option<PathBuf>,
    /// The socket of the virtual switch that it is plugged into.
    pub switch: Option<PathBuf>,
    /// The device of Linux that it drives in place of a switch.
    pub interface: Option<Outside>,
    /// The folder in which it finds other nodes of the machine for direct links.
    pub direct: Option<PathBuf>,
    /// Bytes of the largest frame on these links, header included.
    pub max_frame: usize,
    /// Its disks.
    pub disks: Vec<DiskFile>,
    /// The socket at which other programs hand files to it.
    pub files: Option<PathBuf>,
    /// The file of memory that it shares with other domains.
    pub shared: Option<PathBuf>,
    /// Where samples of what its cores do go, and how many; none are taken without it.
    pub samples: Option<SampleFile>,
    /// What it does once it is up.
    pub program: String,
}

impl Default for Options {
    fn default() -> Options {
        let program = "boot".into();
        Options {
            cores: 4,
            memory: 512 << 20,
            most_memory: 0,
            config: None,
            packages: None,
            switch: None,
            interface: None,
            direct: None,
            max_frame: STANDARD_FRAME,
            disks: Vec::new(),
            files: None,
            shared: None,
            samples: None,
            program,
        }
    }
}

impl Options {
    /// The options that this process was started with, or what is wrong with them.
    pub fn from_command_line() -> Result<Options, String> {
        Options::parse(lexopt::Parser::from_env()).map_err(|error| error.to_string())
    }

    fn parse(mut parser: lexopt::Parser) -> Result<Options, lexopt::Error> {
        let mut options = Options::default();
        let (mut plain, mut passing) = (false, false);
        let (mut samples, mut hertz) = (None, MOST_HERTZ);
        while let Some(argument) = parser.next()? {
            match argument {
                Long("cores") => options.cores = parser.value()?.parse_with(cores)?,
                Long("memory") => options.memory = parser.value()?.parse_with(bytes)?,
                Long("max-memory") => options.most_memory = parser.value()?.parse_with(bytes)?,
                Long("config") => options.config = Some(parser.value()?.into()),
                Long("packages") => options.packages = Some(parser.value()?.into()),
                Long("switch") => options.switch = Some(parser.value()?.into()),
                Long("interface") => {
                    options.interface = Some(parser.value()?.parse_with(Outside::parse)?);
                }
                Long("direct") => options.direct = Some(parser.value()?.into()),
                Long("max-frame") => options.max_frame = parser.value()?.parse_with(frame)?,
                Long("disk") => options.disks.push(disk(parser.value()?)?),
                Long("plain-disks") => plain = true,
                Long("passing-disks") => passing = true,
                Long("files") => options.files = Some(parser.value()?.into()),
                Long("shared-memory") => options.shared = Some(parser.value()?.into()),
                Long("samples") => samples = Some(parser.value()?.into()),
                Long("sample-rate") => hertz = parser.value()?.parse_with(rate)?,
                Long("program") => options.program = parser.value()?.string()?,
                _ => return Err(argument.unexpected()),
            }
        }
        for disk in &mut options.disks {
            (disk.plain, disk.passing) = (plain, passing);
        }
        options.samples = samples.map(|path| SampleFile { path, hertz });
        Ok(options)
    }

    /// The text of the configuration file, empty without one.
    pub fn config_text(&self) -> Result<String, String> {
        let Some(path) = &self.config else { return Ok(String::new()) };
        fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Where the archive of packages is, absolutely, for processes that read it later; empty
    /// without one.
    pub fn packages_path(&self) -> Result<String, String> {
        let Some(path) = &self.packages else { return Ok(String::new()) };
        let named = |error: &dyn Display| format!("{}: {error}", path.display());
        let absolute = path.canonicalize().map_err(|error| named(&error))?;
        absolute.into_os_string().into_string().map_err(|_| named(&"its name is not UTF-8 text"))
    }

    /// What is wrong with the configuration, the way compilers say it.
    pub fn misconfigured(&self, error: &ConfigError) -> String {
        let ConfigError { line, message } = error;
        match (&self.config, line) {
            (Some(path), Some(line)) => format!("{}:{line}: {message}", path.display()),
            (Some(path), None) => format!("{}: {message}", path.display()),
            (None, _) => message.clone(),
        }
    }
}

fn cores(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(cores @ 1..=MAX_CORES) => Ok(cores),
        _ => Err(format!("a node has 1 to {MAX_CORES} cores")),
    }
}

/// Bytes of a frame: no less than every Ethernet has, no more than a length on the wire can say.
fn frame(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes @ STANDARD_FRAME..=65_535) => Ok(bytes),
        _ => Err(format!("the largest frame has {STANDARD_FRAME} to 65535 bytes")),
    }
}

/// Samples of a core in a second.
fn rate(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(hertz @ 1..=MOST_HERTZ) => Ok(hertz),
        _ => Err(format!("a core is sampled 1 to {MOST_HERTZ} times a second")),
    }
}

/// A disk: its file, and behind a colon the bytes that it gets if it is made.
fn disk(given: OsString) -> Result<DiskFile, String> {
    let all = given.as_bytes();
    let size = |text: &[u8]| str::from_utf8(text).ok().and_then(|text| bytes(text).ok());
    let colon = all.iter().rposition(|byte| *byte == b':');
    let made = colon.and_then(|at| Some((&all[..at], size(&all[at + 1..])?)));
    let (path, bytes) = made.map_or((all, None), |(path, bytes)| (path, Some(bytes)));
    match OsStr::from_bytes(path) {
        path if path.is_empty() => Err("a disk is a file, as disk.img or disk.img:64M".into()),
        path => Ok(DiskFile { path: path.into(), bytes, plain: false, passing: false }),
    }
}

/// Bytes as a plain number or with a binary unit, as 512M or 4G.
fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit: u64 = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => return Err("a size is a number and K, M, G or T, as 512M".into()),
    };
    let number: u64 = digits.parse().map_err(|_| "a size begins with a number, as 512M")?;
    number.checked_mul(unit).ok_or_else(|| "more than a 64-bit machine can address".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        Options::parse(lexopt::Parser::from_args(arguments)).map_err(|error| error.to_string())
    }

    #[test]
    fn every_option_has_a_default() {
        assert_eq!(parse(&[]), Ok(Options::default()));
    }

    #[test]
    fn options_are_read() {
        let options = parse(&[
            "--cores=7",
            "--memory",
            "1G",
            "--max-memory",
            "2G",
            "--config",
            "nile.toml",
            "--packages",
            "packages.tar",
            "--switch",
            "/run/switch",
            "--interface",
            "tap:nile0",
            "--direct",
            "/run",
            "--max-frame",
            "9014",
            "--disk",
            "a.img",
            "--disk=b:c.img:64M",
            "--plain-disks",
            "--passing-disks",
            "--files",
            "n1.files",
            "--shared-memory",
            "shared",
            "--samples",
            "n1.samples",
            "--sample-rate",
            "97",
            "--program",
            "tick seconds=1",
        ]);
        let disk =
            |path: &str, bytes| DiskFile { path: path.into(), bytes, plain: true, passing: true };
        let expected = Options {
            cores: 7,
            memory: 1 << 30,
            most_memory: 2 << 30,
            config: Some("nile.toml".into()),
            packages: Some("packages.tar".into()),
            switch: Some("/run/switch".into()),
            interface: Some(Outside::Tap("nile0".into())),
            direct: Some("/run".into()),
            max_frame: 9014,
            files: Some("n1.files".into()),
            shared: Some("shared".into()),
            samples: Some(SampleFile { path: "n1.samples".into(), hertz: 97 }),
            disks: vec![disk("a.img", None), disk("b:c.img", Some(64 << 20))],
            program: "tick seconds=1".into(),
        };
        assert_eq!(options, Ok(expected));
        assert_eq!(parse(&["--memory", "65536"]).map(|options| options.memory), Ok(65536));
    }

    #[test]
    fn wrong_options_are_refused() {
        for arguments in [
            ["--cores", "0"],
            ["--cores", "257"],
            ["--cores", "four"],
            ["--memory", "512X"],
            ["--memory", "M"],
            ["--memory", "99999999999T"],
            ["--memory", "5é"],
            ["--max-frame", "1500"],
            ["--interface", "eth0"],
            ["--max-frame", "65536"],
            ["--sample-rate", "0"],
            ["--sample-rate", "1001"],
            ["--disk", ""],
            ["--disk", ":64M"],
            ["--speed", "9"],
        ] {
            assert!(parse(&arguments).is_err(), "{arguments:?}");
        }
        assert!(parse(&["--config"]).is_err());
        assert!(parse(&["stray"]).is_err());
    }
}
