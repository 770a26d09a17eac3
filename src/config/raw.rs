//! The values of all sources, as unchecked text.
//!
//! Flags too are text until `check` parses them: clap would stop at the first invalid value and hide the others.

use super::{
    options::{self, FILE_KEY, FILE_VARIABLE},
    variables::{self, Environment},
};
use crate::files;
use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt,
    path::{Path, PathBuf},
};

/// The source of a value. Later variants override earlier ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A key of the file at this path.
    File(PathBuf),
    /// A variable of the environment.
    Environment,
    /// The command line.
    Flag,
}

/// A problem of a value, or of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The location, in the form of its source: `--ttl-min`, `FENCEPOST_TTL_MIN`, `ttl_min in /etc/fencepost.toml`.
    pub at: String,
    /// The value; empty if the problem is not a value.
    pub value: String,
    /// The rule it breaks.
    pub rule: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value.as_str() {
            "" => write!(out, "{}: {}", self.at, self.rule),
            // Not printed: the part of a URL before an @ may contain a password, and so may the part after a colon if
            // the @ is missing; a parameter may be one too.
            value if value.contains(['@', '?']) || is_url_with_colon(value) => {
                write!(out, "{}: {}", self.at, self.rule)
            }
            value => write!(out, "{} = {value:?}: {}", self.at, self.rule),
        }
    }
}

/// Whether this is a URL in which something comes after a colon: a port, or a password if the @ was forgotten.
fn is_url_with_colon(value: &str) -> bool {
    value.split_once("://").is_some_and(|(_, rest)| rest.contains(':'))
}

/// Without a file of access rules everybody may do everything.
const ACCESS_KEY: &str = "access";

/// A value and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawValue {
    pub source: Source,
    pub text: String,
}

/// The values of all sources.
#[derive(Debug, Default)]
pub struct RawConfig {
    /// All values of each key, by ascending precedence. The last one is effective, but all are checked.
    pub(super) values: BTreeMap<&'static str, Vec<RawValue>>,
    /// The problems of the sources themselves.
    pub(super) problems: Vec<Problem>,
}

impl RawConfig {
    /// Collects the values of the file, the environment and the flags.
    pub fn read(flags: impl IntoIterator<Item = (&'static str, String)>, environment: &Environment) -> Self {
        let mut raw = Self::default();
        raw.refuse_empty(environment);
        // Compose files and shells use an empty variable for "not set".
        let set = |name: &str| environment.get(OsStr::new(name)).filter(|value| !value.is_empty()).cloned();
        let flags: BTreeMap<&'static str, String> = flags.into_iter().collect();
        let path = match flags.get(FILE_KEY) {
            Some(path) => Some(PathBuf::from(path)),
            None => set(FILE_VARIABLE).map(PathBuf::from),
        };
        if let Some(path) = path {
            raw.read_file(&path);
        }
        for option in options::in_file() {
            let variable = option.variable();
            match set(&variable).map(OsString::into_string) {
                None => {}
                Some(Ok(text)) => raw.add(option.key, Source::Environment, text),
                Some(Err(value)) => raw.report(variable, value.to_string_lossy(), "must be UTF-8"),
            }
        }
        for name in variables::unknown(environment) {
            // Without its value, which may be a secret.
            let rule = match variables::suggestion(&name) {
                Some(meant) => format!("no such variable of fencepost: did you mean {meant}?"),
                None => "no such variable of fencepost: 'fencepost serve --help' names all; unset it".to_owned(),
            };
            raw.report(name, "", &rule);
        }
        for (key, text) in flags {
            if key != FILE_KEY {
                raw.refuse_empty_flag(key, &text);
                raw.add(key, Source::Flag, text);
            }
        }
        raw
    }

    /// Reports a flag whose value a shell lost, as in `--access "$FILE"`. Other empty flags undo what a file says.
    fn refuse_empty_flag(&mut self, key: &str, text: &str) {
        if key == ACCESS_KEY && text.is_empty() {
            let rule = "set, but empty: give it a value, or leave it out to permit everybody everything";
            self.report(location(key, &Source::Flag), "", rule);
        }
    }

    /// Reports variables that must not be empty: see [`variables::NEVER_EMPTY`].
    fn refuse_empty(&mut self, environment: &Environment) {
        for (name, without) in variables::NEVER_EMPTY {
            if environment.get(OsStr::new(name)).is_some_and(|value| value.is_empty()) {
                let rule = format!("set, but empty: give it a value, or unset it {without}");
                self.report(name.to_owned(), "", &rule);
            }
        }
    }

    fn read_file(&mut self, path: &Path) {
        let at = path.display().to_string();
        let read = files::read(path);
        let text =
            read.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "is no text: it must be UTF-8".to_owned()));
        match text {
            Ok(text) => self.read_toml(path, &text),
            Err(why) => self.report(at, "", &why),
        }
    }

    fn read_toml(&mut self, path: &Path, text: &str) {
        let table: toml::Table = match text.parse() {
            Ok(table) => table,
            Err(error) => {
                // Without the line itself, which may contain a password.
                let line = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or_default().lines().count();
                let rule = format!("not valid TOML, at line {}: {}", line.max(1), error.message());
                return self.report(path.display().to_string(), "", &rule);
            }
        };
        for (name, value) in table {
            let at = format!("{name} in {}", path.display());
            let Some(option) = options::in_file().find(|option| option.key == name) else {
                let mut known = options::in_file().map(|option| option.key.to_owned());
                let rule = match variables::most_similar(&name.to_lowercase().replace('-', "_"), &mut known) {
                    Some(meant) => format!("no such option: did you mean {meant}?"),
                    None => format!(
                        "no such option; there are {}",
                        options::in_file().map(|option| option.key).collect::<Vec<_>>().join(", ")
                    ),
                };
                // Without its value, which may be a secret.
                self.report(at, "", &rule);
                continue;
            };
            match value {
                toml::Value::String(text) => self.add(option.key, Source::File(path.to_owned()), text),
                toml::Value::Integer(number) => self.add(option.key, Source::File(path.to_owned()), number.to_string()),
                toml::Value::Boolean(is) => self.add(option.key, Source::File(path.to_owned()), is.to_string()),
                other => self.report(at, other.to_string(), "must be a string, a whole number, or true or false"),
            }
        }
    }

    fn add(&mut self, key: &'static str, source: Source, text: String) {
        self.values.entry(key).or_default().push(RawValue { source, text });
    }

    fn report(&mut self, at: String, value: impl AsRef<str>, rule: &str) {
        self.problems.push(Problem { at, value: value.as_ref().to_owned(), rule: rule.to_owned() });
    }
}

/// The location of an option, in the form of its source.
pub(super) fn location(key: &str, source: &Source) -> String {
    match source {
        Source::File(path) => format!("{key} in {}", path.display()),
        Source::Environment => format!("FENCEPOST_{}", key.to_uppercase()),
        Source::Flag => format!("--{}", key.replace('_', "-")),
    }
}
