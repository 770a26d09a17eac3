//! Scripts, their keys and their arguments, as they are sent.

use deadpool_redis::redis::{self, Cmd, RedisWrite, ToRedisArgs};
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock};
use uuid::Uuid;

/// The digits of a number, with its sign.
const NUMBER_LENGTH_MAX: usize = 20;

/// A script that the server contains. Redis knows it by the hash of its source, so two versions of the server can run
/// side by side, each with its own scripts.
#[derive(Debug)]
pub struct Script {
    source: &'static str,
    sha: OnceLock<String>,
    sha_without_header: OnceLock<String>,
}

/// The first line of a script for engines that know flags: without memory, without enough replicas and as a replica
/// they refuse the whole script, where others refuse its first command that writes.
pub(super) const HEADER: &str = "#!lua\n";

impl Script {
    /// A script by its source.
    pub const fn new(source: &'static str) -> Self {
        Self { source, sha: OnceLock::new(), sha_without_header: OnceLock::new() }
    }

    /// Its source, with the line of flags if it has one.
    pub fn source(&self) -> &'static str {
        self.source
    }

    /// The hash by which Redis knows it.
    pub fn sha(&self) -> &str {
        self.sha_for(true)
    }

    /// The hash by which an engine knows it that takes headers, or takes none.
    pub(super) fn sha_for(&self, takes_headers: bool) -> &str {
        let sha = if takes_headers { &self.sha } else { &self.sha_without_header };
        sha.get_or_init(|| redis::Script::new(self.source_for(takes_headers)).get_hash().to_owned())
    }

    fn source_for(&self, takes_headers: bool) -> &'static str {
        let plain = self.source.strip_prefix(HEADER).filter(|_| !takes_headers);
        plain.unwrap_or(self.source)
    }

    pub(super) fn load(&self, takes_headers: bool) -> Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(self.source_for(takes_headers));
        command
    }

    pub(super) fn evalsha(&self, keys: &[Arg], args: &[Arg], takes_headers: bool) -> Cmd {
        // With what stands around each in the command, which is not to grow while it is made.
        let bytes = keys.iter().chain(args).map(Arg::length).sum::<usize>() + 64;
        let mut command = Cmd::with_capacity(keys.len() + args.len() + 3, bytes);
        command.arg("EVALSHA").arg(self.sha_for(takes_headers)).arg(keys.len()).arg(keys).arg(args);
        command
    }
}

/// One argument of a script. A UUID or a short text needs no allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arg {
    /// A number, sent as decimal digits.
    Int(i64),
    /// A number, sent as decimal digits.
    Uint(u64),
    /// Bytes, sent as they are.
    Bytes(SmallVec<[u8; 40]>),
    /// The same, of something that is kept elsewhere: they are not copied before the command is made.
    Shared(Arc<[u8]>),
}

impl From<&Arc<[u8]>> for Arg {
    fn from(bytes: &Arc<[u8]>) -> Self {
        Self::Shared(Arc::clone(bytes))
    }
}

impl From<i64> for Arg {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<u64> for Arg {
    fn from(number: u64) -> Self {
        Self::Uint(number)
    }
}

impl From<u32> for Arg {
    fn from(number: u32) -> Self {
        Self::Uint(number.into())
    }
}

impl From<bool> for Arg {
    fn from(yes: bool) -> Self {
        Self::Uint(yes.into())
    }
}

impl From<&[u8]> for Arg {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(SmallVec::from_slice(bytes))
    }
}

impl From<&str> for Arg {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

impl From<&String> for Arg {
    fn from(text: &String) -> Self {
        text.as_bytes().into()
    }
}

impl From<Vec<u8>> for Arg {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(SmallVec::from_vec(bytes))
    }
}

impl From<String> for Arg {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl From<Uuid> for Arg {
    /// The 16 bytes.
    fn from(id: Uuid) -> Self {
        id.as_bytes().as_slice().into()
    }
}

impl ToRedisArgs for Arg {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        match self {
            Self::Int(number) => number.write_redis_args(out),
            Self::Uint(number) => number.write_redis_args(out),
            Self::Bytes(bytes) => out.write_arg(bytes),
            Self::Shared(bytes) => out.write_arg(bytes),
        }
    }
}

impl Arg {
    /// The bytes that it takes in a command, at most, of a number; else exactly.
    pub fn length(&self) -> usize {
        match self {
            Self::Int(_) | Self::Uint(_) => NUMBER_LENGTH_MAX,
            Self::Bytes(bytes) => bytes.len(),
            Self::Shared(bytes) => bytes.len(),
        }
    }
}

/// One call of a script, to be sent with others.
#[derive(Clone, Debug)]
pub struct ScriptCall {
    /// The script.
    pub script: &'static Script,
    /// The keys that it touches, all in one slot.
    pub keys: Vec<Arg>,
    /// Its arguments.
    pub args: Vec<Arg>,
}

impl AsRef<Self> for ScriptCall {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl ScriptCall {
    pub(super) fn evalsha(&self, takes_headers: bool) -> Cmd {
        self.script.evalsha(&self.keys, &self.args, takes_headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_packed_as_redis_reads_it() {
        static SCRIPT: Script = Script::new("return 1");
        assert_eq!(SCRIPT.sha(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        let args =
            [Arg::from(-1i64), Arg::from(2u64), Arg::from("x"), Arg::from(Uuid::from_bytes(*b"0123456789abcdef"))];
        let packed = SCRIPT.evalsha(&["{1}k".into()], &args, true).get_packed_command();
        let wanted = "*8\r\n$7\r\nEVALSHA\r\n$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n$1\r\n1\r\n$4\r\n{1}k\r\n\
             $2\r\n-1\r\n$1\r\n2\r\n$1\r\nx\r\n$16\r\n0123456789abcdef\r\n";
        assert_eq!(String::from_utf8(packed).unwrap(), wanted);
    }

    #[test]
    fn an_engine_that_takes_no_headers_gets_the_rest() {
        static PLAIN: Script = Script::new("return 1");
        static WITH_HEADER: Script = Script::new("#!lua\nreturn 1");
        assert_eq!(WITH_HEADER.sha_for(false), PLAIN.sha());
        assert_ne!(WITH_HEADER.sha(), PLAIN.sha());
        assert_eq!(PLAIN.sha_for(false), PLAIN.sha());
        let sent = String::from_utf8(WITH_HEADER.load(false).get_packed_command()).unwrap();
        assert!(sent.ends_with("$8\r\nreturn 1\r\n"), "{sent}");
    }
}
