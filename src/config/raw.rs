//! What the sources say, as text and unchecked: which value, from where, and which one counts.
//!
//! Everything is text until `check` reads it, flags included: a parser that stops at its first complaint would hide the
//! others.

use super::options::{self, FILE_KEY, FILE_VARIABLE};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt, fs,
    path::{Path, PathBuf},
};

/// Who said it. A later one overrides an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A key of the file at this path.
    File(PathBuf),
    /// A variable of the environment.
    Environment,
    /// The command line.
    Flag,
}

/// Something wrong with one value, or with a whole source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it was said, as the one who said it calls it: `--ttl-min`, `FENCEPOST_TTL_MIN`,
    /// `ttl_min in /etc/fencepost.toml`.
    pub at: String,
    /// What was said; empty when the trouble is not with a value.
    pub value: String,
    /// The rule it breaks.
    pub rule: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value.as_str() {
            "" => write!(out, "{}: {}", self.at, self.rule),
            // What stands before an @ in a URL may be a password, and so may what is behind a colon where the @ is
            // missing.
            value if value.contains('@') || value.contains("://:") => write!(out, "{}: {}", self.at, self.rule),
            value => write!(out, "{} = {value:?}: {}", self.at, self.rule),
        }
    }
}

/// One value and who said it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawValue {
    /// Who said it.
    pub source: Source,
    /// What they said.
    pub text: String,
}

/// What all sources say.
#[derive(Debug, Default)]
pub struct RawConfig {
    /// For each key all that was said of it, the least binding first: the last one counts, but all are checked.
    pub(super) values: BTreeMap<&'static str, Vec<RawValue>>,
    /// What is wrong with the sources themselves.
    pub(super) problems: Vec<Problem>,
}

impl RawConfig {
    /// Collects what the file, the environment and the flags say.
    pub fn read(
        flags: impl IntoIterator<Item = (&'static str, String)>,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Self {
        let mut raw = Self::default();
        let flags: BTreeMap<&'static str, String> = flags.into_iter().collect();
        let path = match flags.get(FILE_KEY) {
            Some(path) => Some(PathBuf::from(path)),
            None => environment(FILE_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from),
        };
        if let Some(path) = path {
            raw.read_file(&path);
        }
        for option in options::in_file() {
            let variable = option.variable();
            // An empty variable is how a compose file or a shell says "not set".
            match environment(&variable).filter(|value| !value.is_empty()).map(OsString::into_string) {
                None => {}
                Some(Ok(text)) => raw.say(option.key, Source::Environment, text),
                Some(Err(value)) => raw.complain(variable, value.to_string_lossy(), "must be UTF-8"),
            }
        }
        for (key, text) in flags {
            if key != FILE_KEY {
                raw.say(key, Source::Flag, text);
            }
        }
        raw
    }

    fn read_file(&mut self, path: &Path) {
        let at = path.display().to_string();
        match fs::read_to_string(path) {
            Ok(text) => self.read_toml(path, &text),
            Err(error) => self.complain(at, "", &format!("cannot read this file: {error}")),
        }
    }

    fn read_toml(&mut self, path: &Path, text: &str) {
        let table: toml::Table = match text.parse() {
            Ok(table) => table,
            Err(error) => {
                // Without the line itself, which may hold a password.
                let line = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or_default().lines().count();
                let rule = format!("not TOML, at line {}: {}", line.max(1), error.message());
                return self.complain(path.display().to_string(), "", &rule);
            }
        };
        for (name, value) in table {
            let at = format!("{name} in {}", path.display());
            let Some(option) = options::in_file().find(|option| option.key == name) else {
                let known: Vec<_> = options::in_file().map(|option| option.key).collect();
                let value = value.to_string();
                self.complain(at, value.trim(), &format!("no such option; there are {}", known.join(", ")));
                continue;
            };
            match value {
                toml::Value::String(text) => self.say(option.key, Source::File(path.to_owned()), text),
                toml::Value::Integer(number) => self.say(option.key, Source::File(path.to_owned()), number.to_string()),
                toml::Value::Boolean(is) => self.say(option.key, Source::File(path.to_owned()), is.to_string()),
                other => self.complain(at, other.to_string(), "must be a string, a whole number, or true or false"),
            }
        }
    }

    fn say(&mut self, key: &'static str, source: Source, text: String) {
        self.values.entry(key).or_default().push(RawValue { source, text });
    }

    fn complain(&mut self, at: String, value: impl AsRef<str>, rule: &str) {
        self.problems.push(Problem { at, value: value.as_ref().to_owned(), rule: rule.to_owned() });
    }
}

/// What the source itself calls the option.
pub(super) fn place(key: &str, source: &Source) -> String {
    match source {
        Source::File(path) => format!("{key} in {}", path.display()),
        Source::Environment => format!("FENCEPOST_{}", key.to_uppercase()),
        Source::Flag => format!("--{}", key.replace('_', "-")),
    }
}
