//! `token new` and `access check`: what an operator needs for the access file of a server.

use super::{
    calls::print,
    exit::{CONFIG, Failure, NOT_PERMITTED, UNAVAILABLE, USAGE},
    text,
};
use crate::access::{self, Mode, NewToken, Verb};
use clap::{Args, Subcommand};
use std::path::PathBuf;

const CHECK_HELP: &str = "\
The file is checked as serve checks it, with the keys that it names. The quota of the identity is shown, if it has one. \
No server is asked. Exit codes: 0 a rule permits it; 77 none does; 78 the file cannot be used.";

#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Make a token, and print it with its entry for the access file
    New(NewArgs),
}

#[derive(Debug, Subcommand)]
pub(super) enum AccessCommand {
    /// Show whether an access file permits something, and by which rule
    Check(CheckArgs),
}

/// Whose token to make.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
The first line of the output is the token, a secret that is shown only now. What follows it is the entry for the file of \
serve --access, which has only the SHA-256. A client reads the token from the file of --credentials.")]
pub(super) struct NewArgs {
    /// Identity of the token, as rules name it; several tokens may have the same
    #[arg(value_parser = name)]
    name: String,
}

/// What to check.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = CHECK_HELP)]
pub(super) struct CheckArgs {
    /// The access file
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// The identity: the name of a token or a certificate, or the prefix of an issuer and a claim
    #[arg(long = "as", value_name = "NAME")]
    identity: String,
    /// What it wants to do
    #[arg(value_parser = Verb::ALL.map(Verb::text))]
    verb: String,
    /// Name of the lock; operate needs none
    #[arg(required_if_eq_any = [("verb", "acquire"), ("verb", "read"), ("verb", "check"), ("verb", "force")])]
    lock: Option<String>,
}

/// A name that the access file accepts.
fn name(text: &str) -> Result<String, String> {
    access::check_name(text).map(|()| text.to_owned())
}

pub(super) fn token(command: TokenCommand) -> Result<(), Failure> {
    let TokenCommand::New(NewArgs { name }) = command;
    let made = NewToken::make().ok_or_else(|| Failure::new(UNAVAILABLE, "the system has no random numbers"))?;
    print(&described(&name, &made))
}

/// The token, and its entry for the access file.
fn described(name: &str, NewToken { token, sha256 }: &NewToken) -> String {
    let name = toml::Value::String(name.to_owned());
    format!("{token}\n\n[[token]]\nname = {name}\nsha256 = \"{sha256}\"")
}

pub(super) fn check(command: AccessCommand) -> Result<(), Failure> {
    let AccessCommand::Check(CheckArgs { file, identity, verb, lock }) = command;
    let policy = access::load(&file)
        .map_err(|error| Failure::new(CONFIG, format!("{} cannot be used: {error}", file.display())))?;
    let verb = Verb::named(&verb).ok_or_else(|| Failure::new(USAGE, format!("there is no verb {verb:?}")))?;
    let lock = lock.unwrap_or_default();
    let what = match lock.as_str() {
        "" => format!("{} to {}", text::visible(&identity), verb.text()),
        lock => format!("{} to {} {}", text::visible(&identity), verb.text(), text::visible(lock)),
    };
    let observed = match policy.mode {
        Mode::Observe => " (mode is observe: nothing is refused yet)",
        Mode::Open => " (mode is open: nothing is refused)",
        Mode::Enforce => "",
    };
    let quota = policy.quota(&identity).map(|quota| format!("\nquota: {quota}")).unwrap_or_default();
    match policy.permitting(&identity, verb, &lock) {
        Some(by) => {
            let of = by.locks.map(|locks| format!(" by {locks:?}")).unwrap_or_default();
            print(&format!("permitted: rule {} (line {}) permits {what}{of}{quota}", by.rule, by.line))
        }
        None => {
            print(&format!("not permitted: no rule permits {what}{observed}{quota}"))?;
            Err(Failure::silent(NOT_PERMITTED))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_of_a_token_is_valid_toml() {
        let made = NewToken::make().unwrap();
        let text = described("odd \"name\"", &made);
        let (token, entry) = text.split_once("\n\n").unwrap();
        assert_eq!(token, made.token);
        let entry: toml::Table = entry.parse().unwrap();
        let entry = &entry["token"][0];
        assert_eq!((entry["name"].as_str(), entry["sha256"].as_str()), (Some("odd \"name\""), Some(&*made.sha256)));
        assert!(!text[made.token.len()..].contains(&made.token));
    }
}
