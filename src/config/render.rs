//! The configuration as a file, for `serve --print-config`.

use super::{Config, duration::as_written, options};
use std::path::PathBuf;

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
        "port_file" => path(config.port_file.as_ref()),
        "plaintext" => config.plaintext.to_string(),
        "tls_cert" => path(config.tls.as_ref().map(|tls| &tls.cert)),
        "tls_key" => path(config.tls.as_ref().map(|tls| &tls.key)),
        "tls_client_ca" => path(config.tls.as_ref().and_then(|tls| tls.client_ca.as_ref())),
        "access" => path(config.access.as_ref()),
        "audit_log" => path(config.audit_log.as_ref()),
        "audit_grants" => config.audit_grants.to_string(),
        "connections_max" => config.connections_max.to_string(),
        "connections_per_peer" => config.connections_per_peer.to_string(),
        "store" => string(&config.store),
        "store_ca" => path(config.store_tls.ca.as_ref()),
        "store_cert" => path(config.store_tls.cert.as_ref()),
        "store_key" => path(config.store_tls.key.as_ref()),
        "store_user" => string(&config.store_login.user),
        "store_password_file" => path(config.store_login.password_file.as_ref()),
        "store_prefix" => string(&config.store_prefix),
        "allow_eviction" => config.allow_eviction.to_string(),
        "classic_prefix" => string(&config.classic_prefix),
        "ttl_min" => duration(limits.ttl_min),
        "ttl_max" => duration(limits.ttl_max),
        "wait_max" => duration(limits.wait_max),
        "waiters_per_lock" => limits.waiters_per_lock.to_string(),
        "waiters_per_server" => limits.waiters_per_server.to_string(),
        "leases_per_stream" => limits.leases_per_stream.to_string(),
        "drain_timeout" => duration(config.drain_timeout),
        "admin_listen" => string(&config.admin_listen),
        "admin_tls" => config.admin_tls.to_string(),
        "admin_service" => string(&config.admin_service),
        "test_faults" => string(&config.test_faults.as_ref().map_or_else(String::new, ToString::to_string)),
        "otlp_endpoint" => string(&config.otlp_endpoint),
        "log_format" => string(&config.log.format),
        "log_level" => string(&config.log.filter),
        _ => return None,
    })
}

fn string(value: &dyn ToString) -> String {
    toml::Value::String(value.to_string()).to_string()
}

/// No file is the empty string.
fn path(value: Option<&PathBuf>) -> String {
    string(&value.map_or_else(String::new, |path| path.display().to_string()))
}

fn duration(value: std::time::Duration) -> String {
    string(&as_written(value))
}
