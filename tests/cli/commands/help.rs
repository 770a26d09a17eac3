//! `--help` in terminals of several widths.

use crate::support::{Process, fencepost};

/// All commands, and the program itself.
fn commands() -> Vec<Vec<String>> {
    let listed = |of: &[&str]| {
        let help = help(of, "200");
        let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        let names = lines
            .filter(|line| indentation(line) == 2)
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| *name != "help");
        names.map(|name| [of, &[name]].concat().into_iter().map(str::to_owned).collect()).collect::<Vec<Vec<_>>>()
    };
    let (all, quorum) = (listed(&[]), listed(&["quorum"]));
    assert!(all.len() > 15 && quorum.len() == 4, "{all:?} {quorum:?}");
    [vec![vec![]], all, quorum].concat()
}

fn help(command: &[&str], columns: &str) -> String {
    let words = [command, &["--help"]].concat();
    Process::start(fencepost(&words).env("COLUMNS", columns)).ended().expect(0).out
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Lines that were broken twice are short in the middle of a paragraph: the next word would have fitted.
fn is_broken_twice(line: &str, next: &str, width: usize) -> bool {
    let is_prose = |line: &str| line.trim_start().starts_with(|first: char| first.is_alphabetic());
    let fits = next.split_whitespace().next().is_some_and(|word| line.len() + 1 + word.len() <= width);
    // Rows of a table have a name and a text. They are no prose.
    let is_row = |line: &str| line.trim().contains("  ");
    fits && indentation(line) == indentation(next) && [line, next].iter().all(|it| is_prose(it) && !is_row(it))
}

#[test]
fn the_help_is_broken_once_into_lines_that_fit() {
    for command in commands() {
        let words: Vec<_> = command.iter().map(String::as_str).collect();
        for (columns, width) in [("60", 60), ("80", 80), ("120", 100)] {
            let text = help(&words, columns);
            // The usage is one line, whatever the width.
            let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("Usage:")).collect();
            for pair in lines.windows(2) {
                let [line, next] = [pair[0], pair[1]];
                assert!(line.chars().count() <= width, "{words:?}: {line:?}");
                assert!(!is_broken_twice(line, next, width), "{words:?} at {width}: {line:?} {next:?}");
            }
        }
    }
}
