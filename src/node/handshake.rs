//! The handshake with a Redis, on each new connection and on each check of an old one: identity and fitness.

use super::{RedisUrl, reply::connect_error, script::HEADER};
use crate::domain::time::StoreTime;
use deadpool_redis::redis::{self, Cmd, ErrorKind, ServerErrorKind, Value, aio::MultiplexedConnection};
use sha1_smol::Sha1;
use uuid::Uuid;

/// Scripts with flags need Redis 7.0. Valkey reports the version of Redis that it is compatible with, 7.2 or later.
pub(super) const VERSION_MIN: (u32, u32) = (7, 0);

/// What to do where the URL leads to a replica.
pub(super) const NAME_THE_PRIMARY: &str = ": name the primary in the URL";

/// One run of a Redis as a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incarnation(pub Uuid);

/// What a Redis says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// `redis` or `valkey`.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// New at each start of its process.
    pub run_id: String,
    /// New at each start and at each promotion, and when the first replica is attached.
    pub master_replid: String,
    /// Whether scripts may begin with a line of flags. What is compatible with Redis 7 may not know that line.
    pub takes_headers: bool,
}

impl ServerInfo {
    /// The present one. All servers compute the same id for it. Scripts that compute it themselves
    /// have to do the same.
    pub fn incarnation(&self) -> Incarnation {
        let ids = format!("{}\n{}", self.run_id, self.master_replid);
        let digest = Sha1::from(ids).digest().bytes();
        Incarnation(Uuid::from_u128(digest[..16].iter().fold(0, |id, byte| id << 8 | u128::from(*byte))))
    }
}

/// Asks a Redis that was entered like this URL what it is. The error says why it cannot be used and what to do. Dropped,
/// it leaves nothing behind.
pub(super) async fn greet(connection: &mut MultiplexedConnection, url: &RedisUrl) -> Result<ServerInfo, String> {
    let mut questions = redis::Pipeline::with_capacity(6);
    // Only PING is refused while Redis loads its data or a script keeps it busy.
    questions
        .cmd("PING")
        .cmd("INFO")
        .arg("server")
        .cmd("INFO")
        .arg("replication")
        .cmd("INFO")
        .arg("cluster")
        .cmd("TIME");
    if url.is_in_cluster() {
        questions.cmd("CLUSTER").arg("INFO");
    }
    let count = questions.len();
    let answers = connection.send_packed_commands(&questions, 0, count).await.map_err(|error| connect_error(&error))?;
    let mut answers = answers.into_iter().map(|answer| answer.extract_error().map_err(|error| connect_error(&error)));
    let mut next = || answers.next().unwrap_or_else(|| Err("Redis did not answer each question".to_owned()));
    let (_, server, replication, cluster, time) = (next()?, next()?, next()?, next()?, next()?);
    let is_in_cluster = field(text(&cluster), "cluster_enabled") == "1";
    let info = judge(text(&server), text(&replication))?;
    fits(is_in_cluster, url)?;
    if is_in_cluster {
        state(text(&next()?))?;
    }
    is_primary(text(&replication))?;
    redis_time(&time).ok_or("Redis answers TIME in an unknown format")?;
    Ok(info)
}

/// Asks for a script that does not exist. Redis answers NOSCRIPT if scripts may be run, and runs nothing.
pub(super) fn run_unknown_script() -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg("0000000000000000000000000000000000000000").arg(0);
    command
}

/// Makes sure that scripts may be run; the error says why not.
pub(super) async fn may_run_scripts(connection: &mut MultiplexedConnection) -> Result<(), String> {
    match connection.send_packed_command(&run_unknown_script()).await.and_then(Value::extract_error) {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => Ok(()),
        Err(error) => Err(connect_error(&error)),
        Ok(_) => Ok(()),
    }
}

/// Makes sure that scripts may be run, and notes in which form; the error says why not.
pub(super) async fn prepare_scripts(
    connection: &mut MultiplexedConnection,
    info: ServerInfo,
) -> Result<ServerInfo, String> {
    may_run_scripts(connection).await?;
    Ok(ServerInfo { takes_headers: takes_headers(connection).await?, ..info })
}

/// Whether scripts may begin with a line of flags; an engine that does not know that line refuses to compile it. The
/// error: it refuses all scripts, or does not answer.
pub(super) async fn takes_headers(connection: &mut MultiplexedConnection) -> Result<bool, String> {
    let mut command = redis::cmd("SCRIPT");
    command.arg("LOAD").arg(format!("{HEADER}return 1"));
    match connection.send_packed_command(&command).await.and_then(Value::extract_error) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::ResponseError) => Ok(false),
        Err(error) => Err(connect_error(&error)),
    }
}

fn field<'a>(section: &'a str, name: &str) -> &'a str {
    let mut lines = section.lines();
    lines.find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':')).unwrap_or_default()
}

/// What a Redis is that says this.
fn judge(server: &str, replication: &str) -> Result<ServerInfo, String> {
    let spoken = field(server, "redis_version");
    let (name, version) = match field(server, "valkey_version") {
        "" => ("redis", spoken),
        valkey => ("valkey", valkey),
    };
    if !is_supported(spoken) {
        let (major, minor) = VERSION_MIN;
        return Err(format!(
            "this is Redis {spoken}, and Fencepost needs {major}.{minor} or later, or Valkey: upgrade it, or name \
             another one"
        ));
    }
    let (run_id, master_replid) = (field(server, "run_id"), field(replication, "master_replid"));
    if run_id.is_empty() && master_replid.is_empty() {
        return Err(
            "INFO shows neither run_id nor master_replid, without which a restart of Redis would go unnoticed and \
             tokens could repeat: connect to Redis itself, not to a proxy that hides them"
                .to_owned(),
        );
    }
    let [name, version, run_id, master_replid] = [name, version, run_id, master_replid].map(str::to_owned);
    Ok(ServerInfo { name, version, run_id, master_replid, takes_headers: true })
}

/// Whether a Redis may be used by this URL. One alone is not asked where its slots are, and in a Redis Cluster they move.
fn fits(is_in_cluster: bool, url: &RedisUrl) -> Result<(), String> {
    match (is_in_cluster, url.is_in_cluster()) {
        (true, false) => Err(format!(
            "this Redis is in cluster mode, where the slot of Fencepost's keys may move to another member: write {} \
             in the URL",
            url.shown_with("+cluster://"),
        )),
        (false, true) => Err(format!("this Redis is not in cluster mode: write {} in the URL", url.shown_with("://"))),
        (true, true) | (false, false) => Ok(()),
    }
}

/// Whether the cluster serves, as this member sees it.
fn state(info: &str) -> Result<(), String> {
    match field(info, "cluster_state") {
        "ok" => Ok(()),
        state => Err(format!(
            "the cluster_state of this Redis is {}: it does not reach most primaries of its cluster, or slots have \
             none; see CLUSTER NODES",
            if state.is_empty() { "not told" } else { state },
        )),
    }
}

fn is_primary(replication: &str) -> Result<(), String> {
    let role = field(replication, "role");
    if role == "master" {
        return Ok(());
    }
    Err(format!(
        "this Redis is a replica (role {role}) of {}:{}, and only the primary can grant locks{NAME_THE_PRIMARY}",
        field(replication, "master_host"),
        field(replication, "master_port"),
    ))
}

/// Whether this is a version of Redis that the server can work with.
pub(super) fn is_supported(version: &str) -> bool {
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= VERSION_MIN
}

fn text(value: &Value) -> &str {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).unwrap_or_default(),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => text,
        _ => "",
    }
}

/// Reads the reply to TIME.
pub(super) fn redis_time(value: &Value) -> Option<StoreTime> {
    let (seconds, micros): (u64, u64) = redis::from_redis_value_ref(value).ok()?;
    Some(StoreTime::from_micros(seconds.checked_mul(1_000_000)?.checked_add(micros)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "# Server\r\nredis_version:7.0.15\r\nrun_id:aaaa\r\nconfig_file:\r\n";
    const PRIMARY: &str = "# Replication\r\nrole:master\r\nmaster_replid:bbbb\r\n";

    #[test]
    fn an_incarnation_has_one_id_and_the_next_another() {
        let info = judge(SERVER, PRIMARY).unwrap();
        assert_eq!((info.name.as_str(), info.version.as_str()), ("redis", "7.0.15"));
        assert_eq!(info.incarnation(), judge(SERVER, PRIMARY).unwrap().incarnation());
        // Stored in Redis: if a release changes this id, it has to change the layout of what it stores.
        assert_eq!(format!("{:?}", info.incarnation()), "Incarnation(4a739936-ada0-ceeb-e27a-f8176e08c58a)");
        let restarted = judge(&SERVER.replace("aaaa", "cccc"), PRIMARY).unwrap();
        let promoted = judge(SERVER, &PRIMARY.replace("bbbb", "cccc")).unwrap();
        assert_ne!(info.incarnation(), restarted.incarnation());
        assert_ne!(info.incarnation(), promoted.incarnation());
        assert_ne!(promoted.incarnation(), restarted.incarnation());
    }

    #[test]
    fn a_redis_that_cannot_be_used_is_refused_in_words_that_say_why() {
        let old = judge(&SERVER.replace("7.0.15", "6.2.14"), PRIMARY).unwrap_err();
        assert!(old.contains("6.2.14") && old.contains("upgrade"), "{old}");
        let replica = "role:slave\r\nmaster_host:db1\r\nmaster_port:6379\r\nmaster_replid:bbbb\r\n";
        let replica = is_primary(replica).unwrap_err();
        assert!(replica.contains("replica") && replica.contains("db1:6379"), "{replica}");
        assert_eq!(is_primary(PRIMARY), Ok(()));
        let hidden = judge("redis_version:7.2.0", "role:master").unwrap_err();
        assert!(hidden.contains("proxy"), "{hidden}");
        let nobody = judge("", "").unwrap_err();
        assert!(nobody.contains("7.0 or later"), "{nobody}");
        let valkey = "server_name:valkey\r\nredis_version:7.2.4\r\nvalkey_version:8.1.0\r\nrun_id:aaaa\r\n";
        assert_eq!(judge(valkey, PRIMARY).unwrap().version, "8.1.0");
    }

    #[test]
    fn a_member_of_a_cluster_needs_the_url_of_the_cluster_and_no_other_redis_does() {
        let alone = RedisUrl::parse("rediss://me:s3cret@a:7000").unwrap();
        let member = alone.clone().in_cluster();
        assert_eq!((fits(false, &alone), fits(true, &member)), (Ok(()), Ok(())));
        let said = fits(true, &alone).unwrap_err();
        assert!(said.contains("write rediss+cluster://me:***@a:7000 in the URL"), "{said}");
        let said = fits(false, &member).unwrap_err();
        assert!(said.contains("write rediss://me:***@a:7000 in the URL"), "{said}");
        assert_eq!(state("cluster_enabled:1\r\ncluster_state:ok\r\n"), Ok(()));
        assert!(state("cluster_state:fail\r\n").unwrap_err().contains("is fail"));
        assert!(state("").unwrap_err().contains("not told"));
    }
}
