//! A password in a file, which another program renews.

use super::*;
use fencepost::testing::node::Login;
use std::path::PathBuf;

/// Each connection is checked as often as that.
const CHECKED_WITHIN: Duration = Duration::from_secs(6);

struct PasswordFile {
    folder: tempfile::TempDir,
}

impl PasswordFile {
    fn with(password: &str) -> Self {
        let it = Self { folder: tempfile::tempdir().unwrap() };
        it.write(password);
        it
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("password")
    }

    /// At once, as the programs do that renew passwords.
    fn write(&self, password: &str) {
        let next = self.folder.path().join("next");
        std::fs::write(&next, password).unwrap();
        std::fs::rename(next, self.path()).unwrap();
    }
}

/// A Redis with a user for whom this password is right.
fn redis_with(password: &str) -> Redis {
    let redis = Redis::start(&[]);
    redis.command(&["ACL", "SETUSER", "me", "on", &format!(">{password}"), "~*", "&*", "+@all"]);
    redis
}

async fn kept(redis: &Redis, file: &PasswordFile) -> Kept {
    log::keep();
    let url = RedisUrl::parse(&format!("redis://127.0.0.1:{}", redis.port)).unwrap();
    let url = url.with_login(Login::new("me", &file.path())).unwrap();
    assert_eq!(url.to_string(), format!("redis://me:***@127.0.0.1:{}", redis.port));
    let kept = Kept::new(url);
    kept.all_up().await;
    kept
}

/// The ids of the connections of the user.
fn ids(redis: &Redis) -> Vec<String> {
    let list = redis.command(&["CLIENT", "LIST"]).text();
    let mine = list.lines().filter(|line| line.contains(" user=me "));
    let mut ids: Vec<_> =
        mine.filter_map(|line| line.strip_prefix("id=")?.split(' ').next()).map(str::to_owned).collect();
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn open_connections_authenticate_with_the_new_password_before_the_old_one_ends() {
    let (redis, file) = (redis_with("first"), PasswordFile::with("first\n"));
    let kept = kept(&redis, &file).await;
    let (mut pushes, before) = (kept.node.subscribe("a"), redis.calls("auth"));
    eventually("the subscription is there", || ids(&redis).len() == 5).await;
    assert!(pushes.recv().await.is_some());
    let open = ids(&redis);
    redis.command(&["ACL", "SETUSER", "me", ">second"]);
    file.write("second");
    eventually("all are authenticated again", || redis.calls("auth") >= before + 5).await;
    sleep(CHECKED_WITHIN).await;
    assert_eq!(redis.calls("auth"), before + 5, "once is enough");
    assert_eq!((kept.count().await, ids(&redis)), (Ok(1), open), "none was made anew");
    // New ones have the new one too.
    redis.command(&["ACL", "SETUSER", "me", "<first"]);
    redis.command(&["CLIENT", "KILL", "USER", "me"]);
    kept.counts_again().await;
}

#[tokio::test]
async fn a_new_password_that_redis_does_not_accept_yet_costs_no_connection() {
    let (redis, file) = (redis_with("first"), PasswordFile::with("first"));
    let kept = kept(&redis, &file).await;
    let (open, before) = (ids(&redis), redis.calls("auth"));
    file.write("second");
    eventually("all have tried it", || redis.calls("auth") >= before + 4).await;
    assert_eq!((kept.count().await, ids(&redis)), (Ok(1), open.clone()));
    sleep(CHECKED_WITHIN).await;
    assert_eq!(redis.calls("auth"), before + 4, "no check tries it again at once");
    let logged = log::lines_with(&file.path().display().to_string()).join("\n");
    assert!(logged.contains("WRONGPASS") && !logged.contains("second"), "{logged}");
    assert_eq!(logged.matches("redis password cannot be renewed").count(), 1, "{logged}");
    // A later one does.
    redis.command(&["ACL", "SETUSER", "me", ">second"]);
    let tried = redis.calls("auth");
    let renewed = async {
        while redis.calls("auth") < tried + 4 {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(30), renewed).await.expect("all have it");
    assert_eq!((kept.count().await, ids(&redis)), (Ok(2), open));
}

#[tokio::test]
async fn a_file_that_is_gone_keeps_what_is_open_and_lets_nothing_new_in() {
    let (redis, file) = (redis_with("first"), PasswordFile::with("first"));
    let kept = kept(&redis, &file).await;
    std::fs::remove_file(file.path()).unwrap();
    assert_eq!(kept.count().await, Ok(1));
    redis.command(&["CLIENT", "KILL", "USER", "me"]);
    refused_because(&kept, "cannot be read").await;
    let why = unavailable(kept.node.connection(1));
    assert!(why.contains("no connection to Redis: the file"), "{why}");
    file.write("first");
    kept.becomes(true).await;
    assert_eq!(kept.count().await, Ok(2));
}

#[test]
fn a_url_with_a_password_has_no_other_one() {
    let file = PasswordFile::with("first");
    let url = RedisUrl::parse("redis://:s3cret@127.0.0.1").unwrap();
    let problem = url.with_login(Login::new("", &file.path())).unwrap_err().to_string();
    assert!(problem.contains("beside a password in the URL") && !problem.contains("cret"), "{problem}");
}

/// A Redis that hides AUTH repeats its arguments in the error.
#[tokio::test]
async fn no_log_shows_a_password_that_redis_repeats() {
    let redis = Redis::start(&["--rename-command", "AUTH", "HIDDEN"]);
    redis.command(&["ACL", "SETUSER", "me", "on", ">first", "~*", "&*", "+@all"]);
    let file = PasswordFile::with("first");
    let kept = kept(&redis, &file).await;
    file.write("s3cret-second");
    let name = file.path().display().to_string();
    let logged = || log::lines_with(&name).join("\n");
    eventually("the log says it", || logged().contains("redis password cannot be renewed")).await;
    assert!(!logged().contains("s3cret") && logged().contains("ERR"), "{}", logged());
    assert_eq!(kept.count().await, Ok(1));
}
