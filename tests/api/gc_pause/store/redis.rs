//! Documents in Redis.

use super::{Store, Written, runtime, written};
use deadpool_redis::redis::{AsyncCommands, Client, aio::MultiplexedConnection};
use fencepost_guards::{Grant, redis as guard, redis::GuardedScript};
use tokio::runtime::Runtime;

const WRITE: &str = "return redis.call('SET', KEYS[2], ARGV[3])";

pub(super) struct Redis {
    runtime: Runtime,
    connection: MultiplexedConnection,
}

impl Redis {
    pub(super) fn open(url: &str) -> Self {
        let (runtime, client) = (runtime(), Client::open(url).unwrap());
        let connection = runtime.block_on(client.get_multiplexed_async_connection()).unwrap();
        Self { runtime, connection }
    }

    /// Checks and raises the token, and runs the script, in one step.
    fn fenced(&mut self, grant: Grant<'_>, script: &str, keys: &[&str], arguments: &[&str]) -> Written {
        let fence = format!("fence:{}", grant.lock_name);
        let script = GuardedScript::new(script);
        written(self.runtime.block_on(script.run(&mut self.connection, &fence, grant, keys, arguments)))
    }
}

impl Store for Redis {
    fn write(&mut self, grant: Grant<'_>, name: &str, body: &str) -> Written {
        self.fenced(grant, WRITE, &[name], &[body])
    }

    fn enter(&mut self, grant: Grant<'_>) -> Written {
        self.fenced(grant, "", &[], &[])
    }

    fn raise_shared(&mut self, grant: Grant<'_>) -> Written {
        let fence = format!("fence:{}", grant.lock_name);
        written(self.runtime.block_on(guard::raise_shared(&mut self.connection, &fence, grant)))
    }

    fn work(&mut self, grant: Grant<'_>, name: &str, body: &str) -> Written {
        let (fence, script) = (format!("fence:{}", grant.lock_name), GuardedScript::new(WRITE));
        let work = script.check_shared(&mut self.connection, &fence, grant, name, body);
        written(self.runtime.block_on(work))
    }

    fn write_unchecked(&mut self, name: &str, body: &str) {
        self.runtime.block_on(self.connection.set::<_, _, ()>(name, body)).unwrap();
    }

    fn read(&mut self, name: &str) -> Option<String> {
        self.runtime.block_on(self.connection.get(name)).unwrap()
    }
}
