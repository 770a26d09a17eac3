//! Colours and line breaks of text for people, as clap has them: colours on a terminal, unless `NO_COLOR` is set or the
//! terminal has none; lines that fit into its width. Pipes and files get plain text in whole lines.

use super::text;
use anstream::{AutoStream, ColorChoice, stream::RawStream};
use anstyle::{AnsiColor, Style};
use std::{io, os::fd::AsFd};
use terminal_size::{Width, terminal_size, terminal_size_of};
use textwrap::{Options, WordSeparator, WordSplitter};

/// Of errors.
pub(super) const ERROR: Style = AnsiColor::Red.on_default().bold();
/// Of warnings.
pub(super) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
/// Of what is as it should be.
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
/// Of headings, and of notes on stderr.
pub(super) const HEADING: Style = Style::new().bold();

/// A terminal narrower than this many columns gets whole lines, which it breaks itself.
const WIDTH_MIN: usize = 20;

/// The columns of help on a wide terminal, and in a pipe.
pub(super) const HELP_WIDTH_MAX: usize = 100;

/// How text looks on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    colours: bool,
    /// The columns of the terminal; `None`: lines are not broken.
    width: Option<usize>,
}

impl Look {
    /// How text looks on stdout.
    pub(super) fn of_stdout() -> Self {
        Self::of(&io::stdout())
    }

    /// How text looks on stderr.
    pub(super) fn of_stderr() -> Self {
        Self::of(&io::stderr())
    }

    fn of(stream: &(impl RawStream + AsFd)) -> Self {
        let width = terminal_size_of(stream).map(|(Width(columns), _)| usize::from(columns));
        let colours = AutoStream::choice(stream) != ColorChoice::Never;
        Self { colours, width: width.filter(|columns| *columns >= WIDTH_MIN) }
    }

    /// The columns of a line, if lines are to be broken.
    pub(super) fn width(self) -> Option<usize> {
        self.width
    }

    /// The text in this style.
    pub(super) fn paint(self, style: Style, text: &str) -> String {
        if self.colours { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// The text in lines that fit, further lines with this indentation.
    pub(super) fn wrap(self, text: &str, indentation: &str) -> String {
        match self.width {
            Some(width) => textwrap::fill(text, options(width).subsequent_indent(indentation)),
            None => text.to_owned(),
        }
    }

    /// A message of this program for stderr, with the end of its line. It may contain what others chose: names,
    /// holders, the words of a server.
    pub(super) fn message(self, style: Style, text: &str) -> String {
        const PROGRAM: &str = "fencepost:";
        let text: Vec<_> = text.lines().map(text::visible).collect();
        let lines = self.wrap(&format!("{PROGRAM} {}", text.join("\n")), "  ");
        // The name is first, whatever the width.
        let rest = lines.strip_prefix(PROGRAM).unwrap_or(&lines);
        format!("{}{rest}\n", self.paint(style, PROGRAM))
    }
}

/// The columns of help: those of the terminal, as far as lines of this length are easy to read.
pub(super) fn help_width() -> usize {
    let variable = || std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let columns = terminal_size().map(|(Width(columns), _)| usize::from(columns)).or_else(variable);
    columns.filter(|columns| *columns >= WIDTH_MIN).map_or(HELP_WIDTH_MAX, |columns| columns.min(HELP_WIDTH_MAX))
}

/// A text in lines of this many columns, the first after this beginning, the others below the text.
pub(super) fn hanging(beginning: &str, text: &str, width: usize) -> String {
    let below = " ".repeat(columns(beginning));
    textwrap::fill(text, options(width).initial_indent(beginning).subsequent_indent(&below))
}

/// Breaks a text between words into lines of this many columns. Words that are longer are broken as well.
pub(super) fn cell(text: &str, width: usize) -> Vec<String> {
    textwrap::wrap(text, options(width)).into_iter().map(Into::into).collect()
}

/// The columns that a text takes up on a terminal.
pub(super) fn columns(text: &str) -> usize {
    textwrap::core::display_width(text)
}

/// Breaks at spaces only, so that options and paths stay whole.
fn options(width: usize) -> Options<'static> {
    Options::new(width).word_separator(WordSeparator::AsciiSpace).word_splitter(WordSplitter::NoHyphenation)
}

#[cfg(test)]
impl Look {
    /// How text looks in a pipe.
    pub(super) const PLAIN: Self = Self { colours: false, width: None };

    /// How text looks on a terminal of this width.
    pub(super) fn terminal(width: usize) -> Self {
        Self { colours: true, width: Some(width) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_plain_without_a_terminal() {
        let text = "cannot reach the server at a:7420: name another one with --server";
        assert_eq!(Look::PLAIN.message(ERROR, text), format!("fencepost: {text}\n"));
    }

    #[test]
    fn a_message_fits_into_the_terminal() {
        let text = "cannot reach the server at a:7420: name another one with --server";
        let lines = Look::terminal(30).message(ERROR, text);
        assert!(lines.starts_with("\u{1b}[1m\u{1b}[31mfencepost:\u{1b}[0m cannot reach"), "{lines:?}");
        assert!(lines.lines().count() > 2 && lines.lines().all(|line| columns(line) <= 30), "{lines:?}");
        assert!(lines.contains("--server") && lines.lines().skip(1).all(|line| line.starts_with("  ")), "{lines:?}");
    }

    #[test]
    fn cells_break_between_words_and_long_words_inside() {
        assert_eq!(cell("user@host:1 and other", 12), ["user@host:1", "and other"]);
        assert_eq!(cell("orders/1234567890", 10), ["orders/123", "4567890"]);
        assert_eq!((columns("ab"), columns("日本")), (2, 4));
    }

    #[test]
    fn a_hanging_text_stays_below_its_beginning() {
        assert_eq!(hanging("  0  ", "all is well", 12), "  0  all is\n     well");
    }
}
