//! The program that this process runs: where it is, how large it is.

use std::fs;
use std::ops::Range;

/// Bytes of the program as Linux has loaded it, symbols not counted; zero where Linux does not
/// say.
pub(crate) fn loaded_bytes() -> u64 {
    let (maps, program) = maps();
    mapped(&maps, &program).map(|it| it.len() as u64).sum()
}

/// From where to where the program goes in this process; nothing where Linux does not say.
pub(crate) fn range() -> Range<usize> {
    let (maps, program) = maps();
    let all = || mapped(&maps, &program);
    all().map(|it| it.start).min().unwrap_or(0)..all().map(|it| it.end).max().unwrap_or(0)
}

/// This process's mappings, and what its program is called there.
fn maps() -> (String, String) {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let program = fs::read_link("/proc/self/exe").unwrap_or_default();
    (maps, program.to_string_lossy().into_owned())
}

/// The mappings of the file at `path` in `maps`, a file like /proc/self/maps.
fn mapped<'a>(maps: &'a str, path: &'a str) -> impl Iterator<Item = Range<usize>> + use<'a> {
    let range = move |line: &str| {
        let range = line.strip_suffix(path)?.split_whitespace().next()?;
        let (start, end) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        Some(number(start)?..number(end)?)
    };
    maps.lines().filter_map(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mappings_of_the_program_are_found() {
        let maps = "5000-7000 r-xp 0 fd:00 12  /opt/program\n\
                    7000-8000 rw-p 0 fd:00 12  /opt/program\n\
                    9000-a000 rw-p 0 00:00 0  [heap]\n\
                    nonsense /opt/program\n";
        let found: Vec<_> = mapped(maps, "/opt/program").collect();
        assert_eq!(found, [0x5000..0x7000, 0x7000..0x8000]);
        assert!(loaded_bytes() > 0);
        assert!(range().contains(&(loaded_bytes as fn() -> u64 as usize)));
    }
}
