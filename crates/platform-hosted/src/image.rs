//! The size of the program that this process runs.

use std::fs;

/// Bytes of the program as Linux has loaded it, symbols not counted; zero where Linux does not
/// say.
pub(crate) fn loaded_bytes() -> u64 {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let program = fs::read_link("/proc/self/exe").unwrap_or_default();
    mapped_bytes(&maps, &program.to_string_lossy())
}

/// Bytes of the mappings of the file at `path` in `maps`, a file like /proc/self/maps.
fn mapped_bytes(maps: &str, path: &str) -> u64 {
    let bytes = |line: &str| {
        let range = line.strip_suffix(path)?.split_whitespace().next()?;
        let (start, end) = range.split_once('-')?;
        let end = u64::from_str_radix(end, 16).ok()?;
        end.checked_sub(u64::from_str_radix(start, 16).ok()?)
    };
    maps.lines().filter_map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mappings_of_the_program_are_added_up() {
        let maps = "5000-7000 r-xp 0 fd:00 12  /opt/program\n\
                    7000-8000 rw-p 0 fd:00 12  /opt/program\n\
                    9000-a000 rw-p 0 00:00 0  [heap]\n\
                    nonsense /opt/program\n";
        assert_eq!(mapped_bytes(maps, "/opt/program"), 0x3000);
        assert!(loaded_bytes() > 0);
    }
}
