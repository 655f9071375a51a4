//! The one layout of tables for people: cells in columns of at least so many characters, with a
//! blank between them, and two between numbers and the text that follows.
//!
//! A crate for tables would bring borders, wrapping and colours, which these tables in comments and
//! terminals do not need.

use unicode_width::UnicodeWidthStr;

/// The alignment of a cell, and the least width of its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// Text.
    Left(usize),
    /// Numbers.
    Right(usize),
}

/// One line of a table, without a line end.
pub(crate) fn row<S: AsRef<str>>(columns: &[Column], cells: &[S]) -> String {
    let mut line = String::new();
    let mut before = None;
    for (&column, cell) in columns.iter().zip(cells) {
        let gap = match (before, column) {
            (None, _) => "",
            (Some(Column::Right(_)), Column::Left(_)) => "  ",
            _ => " ",
        };
        line.push_str(gap);
        line.push_str(&aligned(column, cell.as_ref()));
        before = Some(column);
    }
    line
}

/// A table in Markdown: a line for the heads and each row; columns with the heads of `texts` are
/// text, the others numbers.
pub(crate) fn markdown_table(heads: &[&str], rows: &[Vec<String>], texts: &[&str]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let cells = |of: &dyn Fn(&&str) -> String| heads.iter().map(of).collect::<Vec<_>>();
    let rule = |head: &&str| if texts.contains(head) { "---" } else { "---:" }.to_owned();
    let head = line(&cells(&|head| (*head).to_owned())) + &line(&cells(&rule));
    let escaped = |row: &Vec<String>| -> Vec<String> {
        row.iter().map(|cell| cell.replace('|', "\\|")).collect()
    };
    head + &rows.iter().map(|row| line(&escaped(row))).collect::<String>()
}

/// Lines as paragraphs in Markdown, which joins lines.
pub(crate) fn paragraphs(lines: &str) -> String {
    lines.trim_end().replace('\n', "\n\n") + "\n"
}

fn aligned(column: Column, cell: &str) -> String {
    let blanks = |width: usize| " ".repeat(width.saturating_sub(cell.width()));
    match column {
        Column::Left(width) => cell.to_owned() + &blanks(width),
        Column::Right(width) => blanks(width) + cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_in_cells_do_not_end_them() {
        let rows = [vec!["a|b".to_owned(), "2".to_owned()]];
        let table = markdown_table(&["x", "n"], &rows, &["x"]);
        assert_eq!(table, "| x | n |\n| --- | ---: |\n| a\\|b | 2 |\n");
    }

    #[test]
    fn numbers_are_right_aligned_and_text_follows_after_two_blanks() {
        let columns = [Column::Left(3), Column::Right(4), Column::Right(2), Column::Left(0)];
        assert_eq!(row(&columns, &["a", "12", "3", "x"]), "a     12  3  x");
        assert_eq!(row(&columns, &["abcd", "12345", "3", ""]), "abcd 12345  3  ");
    }
}
