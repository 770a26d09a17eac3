//! Defaults from the environment: the servers, the files for TLS and the token, and the label of the holder.

use crate::bearer::Bearer;
use crate::client::ConfigError;
use crate::credentials::token_in;
use crate::facts;
use crate::tls::Tls;
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// The addresses in `FENCEPOST_SERVER`, separated by commas; the default one if it is not set or empty.
pub(crate) fn servers() -> String {
    let value = set(facts::ENVIRONMENT_SERVER).map(|value| value.to_string_lossy().into_owned());
    value.unwrap_or_else(|| facts::DEFAULT_SERVER.to_owned())
}

/// The files that `FENCEPOST_CA`, `FENCEPOST_CERT` and `FENCEPOST_KEY` name.
pub(crate) fn tls() -> Result<Tls, ConfigError> {
    let mut tls = Tls::new();
    if let Some(ca) = set(facts::ENVIRONMENT_CA) {
        tls = tls.ca_file(ca);
    }
    match (set(facts::ENVIRONMENT_CERT), set(facts::ENVIRONMENT_KEY)) {
        (Some(certificate), Some(key)) => Ok(tls.identity_files(certificate, key)),
        (None, None) => Ok(tls),
        (Some(_), None) => Err(ConfigError::Incomplete { missing: facts::ENVIRONMENT_KEY }),
        (None, Some(_)) => Err(ConfigError::Incomplete { missing: facts::ENVIRONMENT_CERT }),
    }
}

/// The token in the file that `FENCEPOST_CREDENTIALS` names. It is read each time, because others may replace it.
pub(crate) fn bearer() -> Bearer {
    let Some(file) = set(facts::ENVIRONMENT_CREDENTIALS) else { return Bearer::default() };
    let file = PathBuf::from(file);
    Bearer::new(move || {
        let of_variable = |why: String| format!("{}: {why}", facts::ENVIRONMENT_CREDENTIALS);
        token_in(&file).map_err(|why| of_variable(why).into())
    })
}

/// A label that tells people which process holds a lock: `user@host:pid`.
pub(crate) fn holder() -> String {
    let user = ["USER", "LOGNAME", "USERNAME"].iter().find_map(|name| set(name));
    let user = user.map_or_else(|| "user".to_owned(), |user| user.to_string_lossy().into_owned());
    label(&user, &host().unwrap_or_else(|| "host".to_owned()), std::process::id())
}

#[cfg(unix)]
fn host() -> Option<String> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    (!name.is_empty()).then_some(name)
}

#[cfg(not(unix))]
fn host() -> Option<String> {
    set("COMPUTERNAME").map(|name| name.to_string_lossy().into_owned())
}

/// The value of a variable, unless it is empty.
fn set(variable: &str) -> Option<OsString> {
    env::var_os(variable).filter(|value| !value.is_empty())
}

/// Each name has at most this many characters (of at most 4 bytes), so that the label is never too long.
const NAME_CHARACTERS_MAX: usize = 28;

/// A label that satisfies the rules for labels, whatever the names are: no control characters, 256 bytes at most.
fn label(user: &str, host: &str, process: u32) -> String {
    let clean = |text: &str| text.chars().filter(|c| !c.is_control()).take(NAME_CHARACTERS_MAX).collect::<String>();
    format!("{}@{}:{process}", clean(user), clean(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_holder_satisfies_the_rules_for_labels() {
        assert_eq!(label("ann", "web-1", 7), "ann@web-1:7");
        assert!(label(&"🙂".repeat(500), &"\u{7}🙂".repeat(500), u32::MAX).len() <= facts::HOLDER_BYTES_MAX);
        assert!(!label("a\nb", "c", 1).contains('\n'));
        assert!(holder().ends_with(&format!(":{}", std::process::id())));
    }
}
