//! Resource usage of processes: CPU time, memory, and Redis commands.

use std::fs;

/// The kernel's unit of CPU times in /proc: 100 on all supported Linux systems.
const TICKS_PER_SECOND: f64 = 100.0;

/// Counters at one moment. Unreadable ones (of remote servers, on a system without /proc) are `None`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    /// CPU seconds of all servers.
    pub server_cpu: Option<f64>,
    /// Resident bytes of all servers.
    pub server_memory: Option<f64>,
    pub redis: Option<RedisReading>,
    /// CPU seconds of this process, which generates the load.
    pub own_cpu: Option<f64>,
}

/// Counters of Redis.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RedisReading {
    pub cpu: f64,
    /// Script calls.
    pub evalsha: f64,
    /// All commands, including those called by scripts.
    pub commands: f64,
    /// Bytes in use.
    pub memory: f64,
}

/// CPU seconds and resident bytes of one process.
pub(super) fn of_process(pid: u32) -> Option<(f64, f64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some((cpu_in(&stat)?, memory_in(&status)?))
}

/// The sum over several processes; `None` if there are none or one of them cannot be read.
pub(super) fn of_processes(pids: impl Iterator<Item = u32>) -> Option<(f64, f64)> {
    let read: Option<Vec<_>> = pids.map(of_process).collect();
    let read = read.filter(|read| !read.is_empty())?;
    Some(read.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1)))
}

fn cpu_in(stat: &str) -> Option<f64> {
    // The name in parentheses may contain anything. The fields after it are 3, 4, ...: utime is 14, stime 15.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system) = (fields.next()?.parse::<f64>().ok()?, fields.next()?.parse::<f64>().ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}

fn memory_in(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? * 1024.0)
}

impl RedisReading {
    /// The difference to earlier counters.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            cpu: self.cpu - before.cpu,
            evalsha: self.evalsha - before.evalsha,
            commands: self.commands - before.commands,
            memory: self.memory - before.memory,
        }
    }

    /// From the text of `INFO everything`.
    pub(super) fn from_info(info: &str) -> Self {
        let field = |name: &str| {
            let found = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            found.and_then(|value| value.trim().parse::<f64>().ok()).unwrap_or_default()
        };
        let evalsha = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        let evalsha = evalsha.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or_default();
        Self {
            cpu: field("used_cpu_user") + field("used_cpu_sys"),
            evalsha,
            commands: field("total_commands_processed"),
            memory: field("used_memory"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_and_memory_are_read_for_any_process_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 4 0 12345 1 2";
        assert_eq!(cpu_in(stat), Some(2.0));
        assert_eq!(memory_in("Name:\ta\nVmPeak:\t 9 kB\nVmRSS:\t    2048 kB\n"), Some(2_097_152.0));
        assert_eq!((cpu_in("nonsense"), memory_in("nonsense")), (None, None));
        assert_eq!(of_processes(std::iter::empty()), None);
    }

    #[test]
    fn redis_counters_are_read_from_info() {
        let info = "# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:2.25\r\nused_cpu_user_children:9\r\nused_memory:1000\r\n\
                    used_memory_rss:7\r\ntotal_commands_processed:12\r\n\
                    cmdstat_evalsha:calls=4,usec=9,usec_per_call=2.25\r\n";
        assert_eq!(
            RedisReading::from_info(info),
            RedisReading { cpu: 3.75, evalsha: 4.0, commands: 12.0, memory: 1000.0 }
        );
        assert_eq!(RedisReading::from_info(""), RedisReading::default());
    }
}
