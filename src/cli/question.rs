//! Confirmations on a terminal before a command that cannot be undone.

use super::write;
use std::io::{self, BufRead, IsTerminal};

/// What the person said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Yes,
    /// Anything else, or nothing.
    No,
    /// There is nobody to ask.
    NoTerminal,
}

/// Asks on the terminal. Blocks until there is an answer.
pub(super) fn ask(question: &str) -> Answer {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Answer::NoTerminal;
    }
    write(question);
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line) {
        Ok(_) if is_yes(&line) => Answer::Yes,
        _ => Answer::No,
    }
}

fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_a_yes() {
        assert!(["y\n", " Yes\n", "YES"].into_iter().all(is_yes));
        assert!(!["", "\n", "n\n", "yesterday\n"].into_iter().any(is_yes));
    }
}
