//! A user, and a password in a file, where another program renews it: credentials of AWS IAM, Microsoft Entra or Vault,
//! which expire.
//!
//! The file is read for each new connection. Services close a connection whose password has expired, so an open one
//! authenticates again once the file has another password. Redis may learn of that password later than this server, so
//! a refusal changes nothing, and the next check tries again.

use super::files::{NodeFile, NodeFileProblem};
use deadpool_redis::redis::{self, ErrorKind, Value, aio::MultiplexedConnection};
use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

/// The most bytes of the file. Passwords of services have a few thousand.
const PASSWORD_BYTES_MAX: u64 = 64 * 1024;

/// A user, and the file with its password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The user of Redis' ACL; none: `default`.
    pub(super) user: Option<String>,
    /// A file with the password alone. Blanks and newlines around it are not part of it.
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
        let text = read(&self.password_file).map_err(|error| self.problem(format!("cannot be read: {error}")))?;
        match text.trim() {
            _ if text.len() as u64 > PASSWORD_BYTES_MAX => {
                Err(self
                    .problem(format!("has more than {PASSWORD_BYTES_MAX} bytes: it must contain the password alone")))
            }
            "" => Err(self.problem("is empty: it must contain the password")),
            password => Ok(password.to_owned()),
        }
    }

    pub(super) fn problem(&self, why: impl Into<String>) -> NodeFileProblem {
        NodeFileProblem::new(NodeFile::Password, &self.password_file, why)
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(PASSWORD_BYTES_MAX + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// What an open connection was authenticated with last.
#[derive(Clone)]
pub(super) struct LoggedIn {
    login: Login,
    password: String,
    /// Why the next password was not taken, so that the log says it once.
    refused: Option<String>,
}

impl LoggedIn {
    pub(super) fn new(login: Login, password: String) -> Self {
        Self { login, password, refused: None }
    }

    /// Authenticates the connection again if the file has another password. If that fails, the connection stays what it
    /// was. Dropped, it leaves the connection authenticated with one of the two.
    pub(super) async fn renew(&mut self, connection: &mut MultiplexedConnection) {
        let password = match self.login.password() {
            Ok(password) if password == self.password => {
                self.refused = None;
                return;
            }
            Ok(password) => password,
            Err(problem) => return self.report(format!("the file {problem}")),
        };
        let mut command = redis::cmd("AUTH");
        command.arg(self.login.user.as_deref()).arg(&password);
        match connection.send_packed_command(&command).await.and_then(Value::extract_error) {
            Ok(_) => (self.password, self.refused) = (password, None),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Server(_) | ErrorKind::Extension | ErrorKind::AuthenticationFailed
                ) =>
            {
                self.report(format!("redis does not accept it ({error})"));
            }
            // The connection is checked next.
            Err(_) => {}
        }
    }

    fn report(&mut self, why: String) {
        if self.refused.as_ref() != Some(&why) {
            let file = self.login.password_file.display();
            let what = "the next password of redis cannot be used: open connections keep the one before";
            tracing::warn!(%file, why, "{what}");
            self.refused = Some(why);
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
        assert_eq!(written(" s3 cret\r\n"), Ok("s3 cret".to_owned()));
        for (text, says) in [("\n", "is empty"), (&"s3cret".repeat(11_000), "more than 65536 bytes")] {
            let problem = written(text).unwrap_err();
            assert!(problem.why.contains(says) && !problem.to_string().contains("cret"), "{problem}");
        }
        let missing = login("missing").password().unwrap_err();
        assert!(missing.file == NodeFile::Password && missing.why.contains("cannot be read"), "{missing}");
    }
}
