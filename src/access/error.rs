//! Why an access file cannot be used, and where.

use std::{fmt, ops::Range};

/// What serde says of a value of the wrong type begins so, and then repeats the value, which may be a secret.
const WRONG_TYPE: [&str; 2] = ["invalid type: ", "invalid value: "];
/// Between that value and what should be there.
const EXPECTED: &str = ", expected ";

/// Why an access file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct AccessError {
    /// Line and column, counted from 1; `None` if the file cannot be read.
    place: Option<(usize, usize)>,
    why: String,
}

impl fmt::Display for AccessError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.place {
            write!(out, "line {line}, column {column}: ")?;
        }
        out.write_str(&self.why)
    }
}

impl AccessError {
    /// The file as a whole cannot be used.
    pub(super) fn of_file(why: impl Into<String>) -> Self {
        Self { place: None, why: why.into() }
    }

    /// The value at `span` of `text` cannot be used.
    pub(super) fn at(text: &str, span: &Range<usize>, why: impl Into<String>) -> Self {
        Self { place: Some(place(text, span.start)), why: why.into() }
    }

    /// The parser has refused `text`.
    pub(super) fn of_parser(text: &str, error: &toml::de::Error) -> Self {
        let message = error.message();
        let why = match message.rsplit_once(EXPECTED) {
            Some((_, expected)) if WRONG_TYPE.iter().any(|begin| message.starts_with(begin)) => {
                format!("must be {expected}")
            }
            _ => message.trim_end().to_owned(),
        };
        Self { place: Some(place(text, error.span().map_or(0, |span| span.start))), why }
    }
}

/// The line and the column of a byte, counted from 1.
pub(super) fn place(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line_begin = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_begin..].chars().count() + 1)
}
