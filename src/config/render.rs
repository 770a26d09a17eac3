//! The configuration as a file, for `serve --print-config`.

use super::{Config, options};

/// One line for each key, below a comment that explains it.
pub(super) fn to_toml(config: &Config) -> String {
    let head = "# The configuration of fencepost serve. Flags and FENCEPOST_ variables override this file.\n";
    let lines = options::in_file().filter_map(|option| {
        let value = value(config, option.key)?;
        Some(format!("\n# {}\n{} = {value}\n", option.help, option.key))
    });
    head.to_owned() + &lines.collect::<String>()
}

/// The value of a key in TOML. A test fails if a key of the table is missing here.
pub(super) fn value(config: &Config, key: &str) -> Option<String> {
    let limits = &config.limits;
    Some(match key {
        "listen" => string(&config.listen),
        "store" => string(&config.store),
        "allow_eviction" => config.allow_eviction.to_string(),
        "classic_prefix" => string(&config.classic_prefix),
        "ttl_min" => duration(limits.ttl_min),
        "ttl_max" => duration(limits.ttl_max),
        "wait_max" => duration(limits.wait_max),
        "waiters_per_lock" => limits.waiters_per_lock.to_string(),
        "waiters_per_server" => limits.waiters_per_server.to_string(),
        "leases_per_stream" => limits.leases_per_stream.to_string(),
        "drain_timeout" => duration(config.drain_timeout),
        "log_format" => string(&config.log.format),
        "log_level" => string(&config.log.filter),
        _ => return None,
    })
}

fn string(value: &dyn ToString) -> String {
    toml::Value::String(value.to_string()).to_string()
}

fn duration(value: std::time::Duration) -> String {
    string(&humantime::format_duration(value))
}
