//! A user, and a password in a file, where another program renews it: credentials of AWS IAM or of Vault, which expire.
//!
//! The file is read for each new connection. Services close a connection whose password has expired, so an open one
//! authenticates again once the file has another password. Redis may learn of that password later than this server, so
//! a refusal changes nothing, and a later check tries again.

use super::files::{self, NodeFile, NodeFileProblem};
use deadpool_redis::redis::{self, Value, aio::MultiplexedConnection};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::Instant;

/// The pause of a connection after Redis has refused a new password.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);

/// A user, and the file with its password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The user of Redis' ACL; none: `default`.
    pub(super) user: Option<String>,
    /// A file with the password alone. The ends of lines after it are not part of it.
    password_file: PathBuf,
}

impl Login {
    /// This user, or Redis' `default` one if it is empty, with the password in this file.
    pub fn new(user: &str, password_file: &Path) -> Self {
        let user = Some(user).filter(|user| !user.is_empty()).map(str::to_owned);
        Self { user, password_file: password_file.to_owned() }
    }

    /// The password in the file.
    pub(super) fn password(&self) -> Result<String, NodeFileProblem> {
        let bytes = files::read(NodeFile::Password, &self.password_file)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| self.problem("is no text: it must be UTF-8"))?;
        match text.trim_end_matches(['\r', '\n']) {
            "" => Err(self.problem("is empty: it must contain the password")),
            password if password.contains(char::is_control) => {
                Err(self.problem("has more than one line: it must contain the password alone"))
            }
            password => Ok(password.to_owned()),
        }
    }

    pub(super) fn problem(&self, why: impl Into<String>) -> NodeFileProblem {
        NodeFileProblem::new(NodeFile::Password, &self.password_file, why)
    }
}

/// What an open connection was authenticated with last.
#[derive(Clone)]
pub(super) struct LoggedIn {
    login: Login,
    password: String,
    /// The new password that Redis refused, and when.
    refused: Option<(String, Instant)>,
}

impl LoggedIn {
    pub(super) fn new(login: Login, password: String) -> Self {
        Self { login, password, refused: None }
    }

    /// Authenticates the connection again if the file has another password. If that fails, the connection stays what it
    /// was, and the reason is returned. Dropped, it leaves the connection authenticated with one of the two.
    pub(super) async fn renew(&mut self, connection: &mut MultiplexedConnection) -> Result<(), String> {
        let password = self.login.password().map_err(|problem| format!("the file {problem}"))?;
        let is_tried = |(refused, at): &(String, Instant)| *refused == password && at.elapsed() < REFUSED_PAUSE;
        if password == self.password || self.refused.as_ref().is_some_and(is_tried) {
            return Ok(());
        }
        let mut command = redis::cmd("AUTH");
        command.arg(self.login.user.as_deref()).arg(&password);
        match connection.send_packed_command(&command).await.and_then(Value::extract_error) {
            Ok(_) => {
                (self.password, self.refused) = (password, None);
                Ok(())
            }
            // The check of the connection says so.
            Err(error) if error.is_connection_dropped() => Ok(()),
            Err(error) => {
                self.refused = Some((password, Instant::now()));
                // What else Redis says may repeat the password.
                let code = error.code().map_or_else(|| format!("{:?}", error.kind()), str::to_owned);
                Err(format!("AUTH with the password in {} failed: {code}", self.login.password_file.display()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_contains_the_password_alone() {
        let folder = tempfile::tempdir().unwrap();
        let login = |name: &str| Login::new("", &folder.path().join(name));
        let written = |text: &str| {
            std::fs::write(folder.path().join("password"), text).unwrap();
            login("password").password()
        };
        assert_eq!(written("s3cret"), Ok("s3cret".to_owned()));
        assert_eq!(written(" s3 cret \r\n"), Ok(" s3 cret ".to_owned()));
        for (text, says) in [
            ("\n", "is empty"),
            ("s3cret\nme", "more than one line"),
            (&"s3cret".repeat(200_000), "more than 1048576 bytes"),
        ] {
            let problem = written(text).unwrap_err();
            assert!(problem.why.contains(says) && !problem.to_string().contains("cret"), "{problem}");
        }
        std::fs::write(folder.path().join("password"), [0xff]).unwrap();
        assert!(login("password").password().unwrap_err().why.contains("UTF-8"));
        assert!(login("").password().unwrap_err().why.contains("is not a file"));
        let missing = login("missing").password().unwrap_err();
        assert!(missing.file == NodeFile::Password && missing.why.contains("cannot be read"), "{missing}");
    }
}
