//! The variables of the environment that are Fencepost's. A misspelt one must not be ignored: a server whose
//! `FENCEPOST_STORE` is misspelt would keep its locks in memory, beside others that keep them in Redis.

use super::options;
use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    net::IpAddr,
};

/// The environment of the process, or what a test sets in its place.
pub type Environment = BTreeMap<OsString, OsString>;

/// What the names of all variables begin with.
const PREFIX: &str = "FENCEPOST_";

/// Variables that are not the server's, and may be set where it starts: those of clients, those that `run` and
/// `acquire --export` set, those that name programs for tests and `bench`, and those of the compose files.
const OF_OTHERS: [&str; 15] = [
    "FENCEPOST_SERVER",
    "FENCEPOST_CA",
    "FENCEPOST_CERT",
    "FENCEPOST_KEY",
    "FENCEPOST_CREDENTIALS",
    "FENCEPOST_LOCK",
    "FENCEPOST_TOKEN",
    "FENCEPOST_GRANT_ID",
    "FENCEPOST_TOKENS",
    "FENCEPOST_GRANT_IDS",
    "FENCEPOST_LEASE_ID",
    "FENCEPOST_BIN",
    "FENCEPOST_REDIS_SERVER",
    "FENCEPOST_IMAGE",
    "FENCEPOST_USER",
];

/// Variables of which an empty one is refused, and what the server does without them. The others count as not set
/// when they are empty, as compose files and shells mean it. But where one of these lost its value, as in
/// `FENCEPOST_STORE=$REDIS_URL`, the server would keep its locks apart from all others, or let in everybody.
pub(super) const NEVER_EMPTY: [(&str, &str); 6] = [
    (options::FILE_VARIABLE, "to start without a file"),
    ("FENCEPOST_STORE", "to keep the locks in the memory of this server"),
    ("FENCEPOST_TLS_CERT", "to serve without TLS"),
    ("FENCEPOST_TLS_KEY", "to serve without TLS"),
    ("FENCEPOST_TLS_CLIENT_CA", "to ask clients for no certificate"),
    ("FENCEPOST_ACCESS", "to permit everybody everything"),
];

/// A name with so few wrong characters is a misspelt one, even if its prefix is misspelt.
const WRONG_MAX: usize = 2;
/// A suggestion has to be at least so similar, of 1, without the prefix.
const SIMILARITY_MIN: f64 = 0.75;

/// The names in this environment that are meant for Fencepost, and that nothing of it reads. An unknown variable that
/// is empty changes nothing, and is ignored.
pub(super) fn unknown(environment: &Environment) -> impl Iterator<Item = String> {
    let unknown = unread(environment).filter(|name| is_meant(name));
    unknown.filter(|name| !is_of_kubernetes(name, environment))
}

/// The name of a set variable that is not `wanted` and was probably meant to be.
pub fn misspelt(environment: &Environment, wanted: &str) -> Option<String> {
    unread(environment).find(|name| is_nearly(&normal(name), wanted))
}

/// The names of the variables that are set and that nothing of Fencepost reads.
fn unread(environment: &Environment) -> impl Iterator<Item = String> {
    let set = environment.iter().filter(|(_, value)| !value.is_empty());
    set.map(|(name, _)| name.to_string_lossy().into_owned()).filter(|name| !known().any(|known| known == *name))
}

/// The variable that was probably meant.
pub(super) fn suggestion(name: &str) -> Option<String> {
    let name = normal(name);
    let Some(rest) = name.strip_prefix(PREFIX) else {
        return known().min_by_key(|known| strsim::osa_distance(&name, known));
    };
    let rests = || known().map(|known| known[PREFIX.len()..].to_owned());
    // Others call it FENCEPOST_STORE_URL, which looks more like FENCEPOST_STORE_USER.
    let without_url = rest.strip_suffix("_URL").or_else(|| rest.strip_suffix("_URI"));
    let found = without_url.and_then(|rest| rests().find(|known| known == rest));
    found.or_else(|| most_similar(rest, rests())).map(|rest| format!("{PREFIX}{rest}"))
}

/// The most similar of these texts, if any is similar.
pub(super) fn most_similar(text: &str, known: impl Iterator<Item = String>) -> Option<String> {
    let scored = known.map(|known| (strsim::jaro(text, &known), known)).filter(|(score, _)| *score >= SIMILARITY_MIN);
    scored.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, known)| known)
}

fn known() -> impl Iterator<Item = String> {
    options::OPTIONS.iter().map(options::ServerOption::variable).chain(OF_OTHERS.map(str::to_owned))
}

/// Whether somebody meant a variable of Fencepost: `fencepost_store` and `FENCPOST_STORE` are not set for anything
/// else.
fn is_meant(name: &str) -> bool {
    let name = normal(name);
    name.starts_with(PREFIX) || known().any(|known| is_nearly(&name, &known))
}

fn is_nearly(name: &str, known: &str) -> bool {
    strsim::osa_distance(name, known) <= WRONG_MAX
}

/// As variables are usually written.
fn normal(name: &str) -> String {
    name.to_ascii_uppercase().replace(['-', '.'], "_")
}

/// Whether Kubernetes sets this variable, for a Service whose name begins with `fencepost`. It sets those of a Service
/// together, so one counts only beside the address and the port of its Service, and only with a value as Kubernetes
/// writes it: a `FENCEPOST_PORT=7420` of an operator is not one of them.
fn is_of_kubernetes(name: &str, environment: &Environment) -> bool {
    let value = |name: &str| environment.get(OsStr::new(name)).and_then(|value| value.to_str());
    let Some(own) = value(name) else { return false };
    // Names of Services have no underscore, but each `-` of a name becomes one: any of them may end the name.
    name.match_indices('_').any(|(end, _)| {
        let (service, rest) = name.split_at(end);
        let has_service = value(&format!("{service}_SERVICE_HOST")).is_some_and(is_host)
            && value(&format!("{service}_SERVICE_PORT")).is_some_and(is_port);
        has_service && is_part_of_service(&rest[1..], own)
    })
}

/// Whether a variable of a Service ends in this way, and has such a value.
fn is_part_of_service(rest: &str, value: &str) -> bool {
    match rest {
        "SERVICE_HOST" => return is_host(value),
        "SERVICE_PORT" => return is_port(value),
        "PORT" => return is_url(value),
        _ => {}
    }
    if let Some(port_name) = rest.strip_prefix("SERVICE_PORT_") {
        return !port_name.is_empty() && is_port(value);
    }
    // PORT_7420_TCP, and the same with _PROTO, _PORT and _ADDR.
    let mut parts = rest.split('_');
    let is_begun = parts.next() == Some("PORT")
        && parts.next().is_some_and(is_port)
        && parts.next().is_some_and(|protocol| is_protocol(&protocol.to_ascii_lowercase()));
    is_begun
        && match (parts.next(), parts.next()) {
            (None, _) => is_url(value),
            (Some("PROTO"), None) => is_protocol(value),
            (Some("PORT"), None) => is_port(value),
            (Some("ADDR"), None) => is_host(value),
            _ => false,
        }
}

fn is_host(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

fn is_protocol(text: &str) -> bool {
    ["tcp", "udp", "sctp"].contains(&text)
}

/// Such as `tcp://10.0.0.7:7420`.
fn is_url(text: &str) -> bool {
    let parts = text.split_once("://").and_then(|(protocol, rest)| Some((protocol, rest.rsplit_once(':')?)));
    parts.is_some_and(|(protocol, (host, port))| {
        is_protocol(protocol) && is_host(host.trim_start_matches('[').trim_end_matches(']')) && is_port(port)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn unknown_in(pairs: &[(&str, &str)]) -> Vec<String> {
        unknown(&of(pairs)).collect()
    }

    /// What Kubernetes sets for a Service with a named port.
    const SERVICE: [(&str, &str); 8] = [
        ("FENCEPOST_SERVICE_HOST", "10.96.0.7"),
        ("FENCEPOST_SERVICE_PORT", "7420"),
        ("FENCEPOST_SERVICE_PORT_GRPC", "7420"),
        ("FENCEPOST_PORT", "tcp://10.96.0.7:7420"),
        ("FENCEPOST_PORT_7420_TCP", "tcp://10.96.0.7:7420"),
        ("FENCEPOST_PORT_7420_TCP_PROTO", "tcp"),
        ("FENCEPOST_PORT_7420_TCP_PORT", "7420"),
        ("FENCEPOST_PORT_7420_TCP_ADDR", "10.96.0.7"),
    ];

    #[test]
    fn variables_of_others_are_known() {
        assert_eq!(unknown_in(&OF_OTHERS.map(|name| (name, "x"))), [""; 0]);
    }

    #[test]
    fn what_is_meant_for_fencepost_and_not_known_is_found() {
        for (name, meant) in [
            ("FENCEPOST_STOR", Some("FENCEPOST_STORE")),
            ("FENCEPOST_STORE_URL", Some("FENCEPOST_STORE")),
            ("FENCEPOST_TLS_CLIENTCA", Some("FENCEPOST_TLS_CLIENT_CA")),
            ("FENCEPOST_SERVERS", Some("FENCEPOST_SERVER")),
            ("fencepost_store", Some("FENCEPOST_STORE")),
            ("FENCEPOST-STORE", Some("FENCEPOST_STORE")),
            ("FENCPOST_STORE", Some("FENCEPOST_STORE")),
            ("FENCEPOST_PORT", None),
            ("FENCEPOST_", None),
        ] {
            assert_eq!(unknown_in(&[(name, "x")]), [name]);
            if meant.is_some() {
                assert_eq!(suggestion(name).as_deref(), meant, "{name}");
            }
        }
        assert_eq!(suggestion("FENCEPOST_"), None);
        assert_eq!(suggestion("FENCEPOST_QUX"), None);
        assert_eq!(unknown_in(&[("FENCEPOST_STOR", ""), ("PATH", "x"), ("FENCE", "x"), ("POSTFENCE_X", "x")]), [""; 0]);
    }

    #[test]
    fn kubernetes_may_tell_of_services_that_are_called_so() {
        assert_eq!(unknown_in(&SERVICE), [""; 0]);
        // A Service fencepost-admin without named ports, in a network of IPv6.
        let other = SERVICE.map(|(name, value)| {
            let value = value.replace("//10.96.0.7", "//[fd00::7]").replace("10.96.0.7", "fd00::7");
            (name.replace("FENCEPOST", "FENCEPOST_ADMIN"), value)
        });
        let other: Vec<_> = other.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(unknown_in(&other), [""; 0]);
    }

    #[test]
    fn what_only_looks_like_a_service_is_refused() {
        // Without the address of the Service beside it.
        for (name, value) in &SERVICE {
            assert_eq!(unknown_in(&[(name, value)]), [*name]);
        }
        // With a value that Kubernetes does not write.
        for name in ["FENCEPOST_PORT", "FENCEPOST_SERVICE_PORT_X", "FENCEPOST_PORT_7420_TCP", "FENCEPOST_PORT_1_TCP_X"]
        {
            let with = |value| unknown_in(&[&SERVICE[..2], &[(name, value)]].concat());
            assert_eq!(with("redis://10.96.0.7:1"), [name]);
        }
        assert_eq!(unknown_in(&[&SERVICE[..], &[("FENCEPOST_PORT_FIL", "x")]].concat()), ["FENCEPOST_PORT_FIL"]);
    }

    #[test]
    fn a_client_finds_its_misspelt_variable() {
        let misspelt = |name| misspelt(&of(&[(name, "a:7420"), ("FENCEPOST_LOCK_NAME", "x")]), "FENCEPOST_SERVER");
        for name in ["FENCEPOST_SERVR", "FENCEPOST_SERVERS", "FENCPOST_SERVER", "fencepost_server"] {
            assert_eq!(misspelt(name).as_deref(), Some(name));
        }
        assert_eq!(misspelt("FENCEPOST_SERVER"), None);
        assert_eq!(misspelt("FENCEPOST_SERVICE_HOST"), None);
    }
}
