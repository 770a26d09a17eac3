//! Rows in columns, which fit into the lines of a terminal.

use crate::cli::look::{HEADING, Look, cell, columns};
use std::cmp;

/// The least columns for each text of a row.
const TEXT_WIDTH_MIN: usize = 12;

/// The columns between two cells.
const GAP: usize = 2;

/// The rows below each other, the first as the heading; empty if there is no other one. The first `texts` columns are
/// broken into several lines where a row would not fit.
pub(super) fn table<const N: usize>(rows: &[[String; N]], texts: usize, look: Look) -> String {
    if rows.len() < 2 {
        return String::new();
    }
    let mut widths = [0; N];
    for (column, width) in widths.iter_mut().enumerate() {
        *width = rows.iter().map(|row| columns(&row[column])).fold(0, cmp::max);
    }
    narrow(&mut widths, texts, look.width());
    let mut lines: Vec<String> = rows.iter().flat_map(|row| lines_of(row, &widths)).collect();
    lines[0] = look.paint(HEADING, &lines[0]);
    lines.join("\n")
}

/// Makes texts narrower, the longest first. Does nothing if too little would be left of them.
fn narrow(widths: &mut [usize], texts: usize, line: Option<usize>) {
    let gaps = (widths.len() - 1) * GAP;
    let (texts, others) = widths.split_at_mut(texts);
    let taken = others.iter().sum::<usize>() + gaps;
    let room = line.and_then(|line| line.checked_sub(taken));
    let Some(mut room) = room.filter(|room| *room >= texts.len() * TEXT_WIDTH_MIN) else { return };
    let mut by_width: Vec<_> = texts.iter_mut().collect();
    by_width.sort();
    let mut left = by_width.len();
    for width in by_width {
        // What a short text leaves is for the longer ones.
        *width = (*width).min(room / left);
        room -= *width;
        left -= 1;
    }
}

/// A row, whose texts take several lines if they are too long for their columns.
fn lines_of<const N: usize>(row: &[String; N], widths: &[usize; N]) -> Vec<String> {
    let cells: Vec<_> = row.iter().zip(widths).map(|(text, width)| cell(text, *width)).collect();
    let height = cells.iter().map(Vec::len).fold(0, cmp::max);
    let line = |index: usize| {
        let texts = cells.iter().zip(widths).map(|(lines, width)| {
            let text = lines.get(index).map_or("", String::as_str);
            format!("{text}{}", " ".repeat((width + GAP).saturating_sub(columns(text))))
        });
        texts.collect::<String>().trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_share_what_short_ones_and_figures_leave() {
        let narrowed = |mut widths: [usize; 4], line| {
            narrow(&mut widths, 3, Some(line));
            widths
        };
        assert_eq!(narrowed([10, 10, 10, 4], 60), [10, 10, 10, 4], "all fit");
        assert_eq!(narrowed([5, 40, 40, 4], 60), [5, 22, 23, 4], "60 columns with the gaps");
        assert_eq!(narrowed([90, 5, 20, 4], 60), [25, 5, 20, 4]);
        assert_eq!(narrowed([90, 90, 90, 4], 40), [90, 90, 90, 4], "too narrow for columns");
    }
}
