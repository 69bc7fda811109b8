//! Rows of text in columns.

/// Lays `rows` out in columns as wide as their widest cell, two spaces apart, each line starting
/// with `indent`. A column of numbers, under a title or not, stands to the right.
pub fn columns(indent: &str, rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let columns: Vec<Column> = (0..count).map(|place| Column::of(rows, place)).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&columns).map(|(cell, column)| column.pad(cell)).collect();
        text.push_str(format!("{indent}{}", cells.join("  ")).trim_end());
        text.push('\n');
    }
    text
}

struct Column {
    width: usize,
    numbers: bool,
}

impl Column {
    fn of(rows: &[Vec<String>], place: usize) -> Column {
        let cells = || rows.iter().filter_map(|row| row.get(place));
        let width = cells().map(|cell| cell.chars().count()).max().unwrap_or(0);
        let below_title = if rows.len() > 1 { 1 } else { 0 };
        Column { width, numbers: cells().skip(below_title).all(|cell| is_number(cell)) }
    }

    fn pad(&self, cell: &str) -> String {
        let width = self.width;
        match self.numbers {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        }
    }
}

/// Whether `cell` is a number, perhaps with a unit.
fn is_number(cell: &str) -> bool {
    cell.starts_with(|c: char| c.is_ascii_digit()) && cell.split(' ').count() <= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_numbers_right() {
        let row = |cells: &[&str]| cells.iter().map(|cell| cell.to_string()).collect();
        let rows: [Vec<String>; 3] = [
            row(&["name", "time", "note"]),
            row(&["é", "7 us", "4 of 5 runs"]),
            row(&["round", "1200 us", "3 runs"]),
        ];
        assert_eq!(
            columns("  ", &rows),
            "  name      time  note\n  é         7 us  4 of 5 runs\n  round  1200 us  3 runs\n"
        );
        assert_eq!(columns("", &rows[1..2]), "é  7 us  4 of 5 runs\n");
        assert_eq!(columns("", &[]), "");
    }
}
