//! `completions` and `man`, generated from the definition of the command line.

use super::{
    Cli,
    exit::{self, Failure, USAGE},
};
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::Write;

/// The columns of a manual page, less its margin.
const MAN_WIDTH: usize = 72;

/// Writes the completion script of a shell.
pub(super) fn completions(shell: Shell, out: &mut impl Write) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "fencepost", &mut text);
    Ok(out.write_all(with_lock_names(shell, &String::from_utf8_lossy(&text)).as_bytes())?)
}

/// The script, which also asks the server for the names of locks. clap knows words that never change only.
fn with_lock_names(shell: Shell, script: &str) -> String {
    match shell {
        Shell::Bash => script.to_owned() + include_str!("completions/names.bash"),
        Shell::Fish => script.to_owned() + include_str!("completions/names.fish"),
        // The functions come before the call at the end of the script.
        Shell::Zsh => {
            let (head, rest) = script.split_once('\n').unwrap_or_default();
            let lines = rest.split_inclusive('\n').map(|line| match line.trim_start() {
                text if ZSH_NAMES.iter().any(|name| text.starts_with(name)) => {
                    line.replace(":_default'", ":_fencepost_lock_names'")
                }
                _ => line.to_owned(),
            });
            format!("{head}\n{}{}", include_str!("completions/names.zsh"), lines.collect::<String>())
        }
        _ => script.to_owned(),
    }
}

/// How the arguments begin, in a script for zsh, that are the name of a lock or its beginning.
const ZSH_NAMES: [&str; 3] = ["':name -- ", "'::prefix -- ", "'()--name="];

/// Writes the manual page of the program, or of a command, as roff.
pub(super) fn man(of: Option<&str>, out: &mut impl Write) -> Result<(), Failure> {
    let mut command = Cli::command().flatten_help(false);
    command.build();
    let mut text = Vec::new();
    match of {
        None => {
            clap_mangen::Man::new(command.after_long_help(None)).render(&mut text)?;
            // Unfilled, because roff would join the lines of the table.
            write!(text, ".SH \"EXIT STATUS\"\n.nf\n{}\n.fi\n", exit::table(MAN_WIDTH))?;
        }
        Some(name) => match command.find_subcommand(name) {
            Some(found) => clap_mangen::Man::new(found.clone().name(format!("fencepost-{name}"))).render(&mut text)?,
            None => return Err(Failure::new(USAGE, format!("there is no command {name:?}: see 'fencepost help'"))),
        },
    }
    let text = String::from_utf8_lossy(&text).replace(".SH EXTRA\n", ".SH NOTES\n");
    Ok(out.write_all(text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_gets_completions() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut text = Vec::new();
            completions(shell, &mut text).unwrap();
            assert!(String::from_utf8(text).unwrap().contains("force-release"), "{shell}");
        }
    }

    #[test]
    fn the_manual_has_the_exit_codes_and_a_page_for_each_command() {
        let page = |of| {
            let mut text = Vec::new();
            man(of, &mut text).map(|()| String::from_utf8(text).unwrap())
        };
        let main = page(None).unwrap();
        assert!(main.contains("EXIT STATUS") && main.contains("\n   75  the lock"), "{main}");
        let whole = Cli::command();
        for command in whole.get_subcommands() {
            let text = page(Some(command.get_name())).unwrap();
            assert!(text.contains(".TH"), "{}", command.get_name());
        }
        assert_eq!(page(Some("nothing")).unwrap_err().code, USAGE);
    }
}
