//! Sources, precedence, rules at their edges, and the round trip through the printed file.

mod stores;

use super::*;
use std::{fs, io::Write};

fn load(
    flags: &[(&'static str, &str)],
    environment: &[(&str, &str)],
    file: Option<&str>,
) -> Result<Config, ConfigError> {
    let mut flags: Vec<_> = flags.iter().map(|(key, text)| (*key, (*text).to_owned())).collect();
    let mut kept = tempfile::NamedTempFile::new().unwrap();
    if let Some(text) = file {
        kept.write_all(text.as_bytes()).unwrap();
        flags.push((options::FILE_KEY, kept.path().display().to_string()));
    }
    Config::load(flags, &environment.iter().map(|(name, value)| (name.into(), value.into())).collect(), url)
}

/// A stand-in for the store's check of URLs.
fn url(text: &str) -> Result<(), String> {
    if text.ends_with("://") || text.contains("odd") { Err("is odd".to_owned()) } else { Ok(()) }
}

fn refused(flags: &[(&'static str, &str)]) -> String {
    load(flags, &[], None).unwrap_err().to_string()
}

#[test]
fn without_sources_the_configuration_is_the_default() {
    assert_eq!(load(&[], &[], None).unwrap(), Config::default());
}

#[test]
fn a_flag_overrides_a_variable_overrides_the_file_overrides_the_default() {
    let file = Some("ttl_min = '5s'\nttl_max = '5m'\nwait_max = '5m'");
    let environment = [("FENCEPOST_TTL_MIN", "6s"), ("FENCEPOST_TTL_MAX", "6m")];
    let limits = load(&[("ttl_min", "7s")], &environment, file).unwrap().limits;
    assert_eq!(limits.ttl_min, Duration::from_secs(7));
    assert_eq!(limits.ttl_max, Duration::from_secs(6 * 60));
    assert_eq!(limits.wait_max, Duration::from_secs(5 * 60));
    assert_eq!(limits.waiters_per_lock, Limits::default().waiters_per_lock);
}

#[test]
fn the_flag_config_overrides_the_variable() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one.toml"), folder.path().join("two.toml"));
    fs::write(&one, "waiters_per_lock = 1").unwrap();
    fs::write(&two, "waiters_per_lock = 2").unwrap();
    let environment = Environment::from([(options::FILE_VARIABLE.into(), one.into_os_string())]);
    assert_eq!(Config::load([], &environment, url).unwrap().limits.waiters_per_lock, 1);
    let flag = (options::FILE_KEY, two.display().to_string());
    assert_eq!(Config::load([flag], &environment, url).unwrap().limits.waiters_per_lock, 2);
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    let empty = [("FENCEPOST_LISTEN", ""), ("FENCEPOST_TTL_MAX", ""), ("FENCEPOST_OTLP_ENDPOINT", "")];
    assert_eq!(load(&[], &empty, None).unwrap(), Config::default());
}

#[test]
fn all_problems_of_all_sources_are_reported_together() {
    let file = Some("ttl_min = 'soon'\nlisten = 1.5\ncolour = 'red'\n");
    let error = load(&[("store", "etcd://here")], &[("FENCEPOST_WAITERS_PER_LOCK", "0")], file).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.problems.len(), 5, "{text}");
    for part in [
        "5 problems",
        "colour in ",
        "no such option",
        "listen in ",
        "must be a string, a whole number, or true or false",
        "ttl_min in ",
        "\"soon\"",
        "must be a duration with a unit",
        "--store = \"etcd://here\": no such store; there are memory:",
        "FENCEPOST_WAITERS_PER_LOCK = \"0\": must be a whole number from 1 to 1000000",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

#[test]
fn a_problem_with_the_store_url_is_reported_without_the_password() {
    assert_eq!(
        load(&[("store", "rediss://even")], &[], None).unwrap().store,
        StoreUrl::Redis(vec!["rediss://even".to_owned()])
    );
    assert!(refused(&[("store", "redis://odd")]).contains("--store = \"redis://odd\": is odd"));
    for url in ["redis://:secret@odd", "reds://:secret@even", "reds://:secret"] {
        let text = refused(&[("store", url), ("listen", "nowhere")]);
        assert!(text.contains("2 problems") && text.contains("--store: ") && !text.contains("secret"), "{text}");
    }
    for file in ["stores = 'redis://:secret@even'", "store = ['redis://:secret@even']", "store = 'redis://:secret@even"]
    {
        let text = load(&[], &[], Some(file)).unwrap_err().to_string();
        assert!(!text.contains("secret"), "{text}");
    }
}

#[test]
fn a_file_printed_without_the_password_needs_the_url_from_another_source() {
    let url = "redis://user:secret@even:6390/2";
    let printed = load(&[("store", url)], &[], None).unwrap().to_toml();
    assert!(printed.contains("store = \"redis://***@even:6390/2\"") && !printed.contains("secret"), "{printed}");
    let back = load(&[], &[("FENCEPOST_STORE", url)], Some(&printed)).unwrap();
    assert_eq!(back.store, StoreUrl::Redis(vec![url.to_owned()]));
    let alone = load(&[], &[], Some(&printed)).unwrap_err().to_string();
    assert!(alone.contains("store in ") && alone.contains("FENCEPOST_STORE"), "{alone}");
    let forgotten = refused(&[("store", "redis://odd:s3cret")]);
    assert!(!forgotten.contains("s3cret"), "the @ was forgotten: {forgotten}");
    assert!(refused(&[("store", "quorum+redis://even")]).contains("no such store"));
}

#[test]
fn an_overridden_value_is_checked() {
    let error = load(&[("ttl_min", "2s")], &[("FENCEPOST_TTL_MIN", "2")], None).unwrap_err();
    assert_eq!(error.problems[0].at, "FENCEPOST_TTL_MIN");
}

#[test]
fn an_unusable_file_is_a_problem() {
    let missing = load(&[(options::FILE_KEY, "/nonexistent/fencepost.toml")], &[], None).unwrap_err();
    assert!(missing.to_string().contains("/nonexistent/fencepost.toml: cannot be read: "), "{missing}");
    assert!(load(&[], &[], Some("listen =")).unwrap_err().to_string().contains("not valid TOML"));
    assert!(load(&[], &[], Some("config = 'other.toml'")).unwrap_err().to_string().contains("no such option"));
}

#[test]
fn a_misspelt_name_is_refused_with_what_was_meant() {
    let secret = "redis://:s3cret@host";
    for (name, meant) in [("FENCEPOST_STOR", "FENCEPOST_STORE"), ("FENCEPOST_TLS_CLIENTCA", "FENCEPOST_TLS_CLIENT_CA")]
    {
        let said = load(&[], &[(name, secret)], None).unwrap_err().to_string();
        assert!(said.ends_with(&format!("{name}: no such variable of fencepost: did you mean {meant}?")), "{said}");
    }
    let said = load(&[], &[("FENCEPOST_QUX", secret)], None).unwrap_err().to_string();
    assert!(said.contains("FENCEPOST_QUX: no such variable") && said.contains("unset it"), "{said}");
    for (line, meant) in [("stor = 'secret'", "store"), ("TLS-CLIENTCA = 'secret'", "tls_client_ca")] {
        let said = load(&[], &[], Some(line)).unwrap_err().to_string();
        assert!(said.contains(&format!("no such option: did you mean {meant}?")) && !said.contains("secret"), "{said}");
    }
    assert!(load(&[], &[("FENCEPOST_STOR", "")], None).is_ok(), "it counts as not set");
}

#[test]
fn a_variable_that_lost_its_value_does_not_weaken_the_server() {
    for (name, without) in variables::NEVER_EMPTY {
        let said = load(&[], &[(name, "")], None).unwrap_err().to_string();
        assert!(said.contains(&format!("{name}: set, but empty: give it a value, or unset it {without}")), "{said}");
        // A flag hides nothing that is wrong.
        assert!(load(&[("store", "memory:")], &[(name, "")], None).is_err());
        assert!(options::OPTIONS.iter().any(|option| option.variable() == name) || name == options::FILE_VARIABLE);
    }
}

/// `--access "$FILE"` with a variable that is not set would permit everybody everything.
#[test]
fn an_empty_flag_is_refused_where_it_would_let_in_everybody() {
    assert!(refused(&[("access", "")]).contains("--access: set, but empty: give it a value"));
    assert!(load(&[("store_ca", "")], &[], None).is_ok());
    assert!(load(&[], &[], Some("access = ''")).is_ok(), "as --print-config writes it");
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_not_utf8_is_a_problem() {
    use std::{ffi::OsString, os::unix::ffi::OsStringExt};
    let environment = Environment::from([("FENCEPOST_STORE".into(), OsString::from_vec(vec![b'm', 0xff]))]);
    assert!(Config::load([], &environment, url).unwrap_err().to_string().contains("must be UTF-8"));
}

/// Options with values that are accepted, and values that are refused.
const EDGES: [(&str, &[&str], &[&str]); 25] = [
    ("store_ca", &[""], &["a\nb", "/a.pem"]),
    ("store_user", &[""], &["a b", "a\nb", "me"]),
    ("store_password_file", &[""], &["a\nb", "/p"]),
    ("plaintext", &["true", "false"], &["maybe"]),
    ("tls_cert", &[""], &["a\nb", "/a.pem"]),
    ("connections_max", &["1", "1000000"], &["0", "1000001"]),
    ("connections_per_peer", &["1", "1000000"], &["0", "1000001"]),
    ("store_prefix", &["fp", "team-a.eu_1"], &["", "a b", "a{b", "a*", "é", "a234567890123456789012345"]),
    ("classic_prefix", &[""], &["a\nb"]),
    ("allow_eviction", &["true", "false"], &["yes", "1", ""]),
    (
        "listen",
        &["127.0.0.1:0", "[::]:7420", ":7420", ":0", "localhost:7420", "my_host-1.internal:65535", "unix:/run/a.sock"],
        &[
            "unix:",
            "unix:a.sock",
            "unix://run/a",
            "unix:/a\nb",
            "7420",
            "127.0.0.1",
            "localhost",
            "",
            ":",
            "::1:7420",
            "[::1]",
            "[a]:1",
            "1.2.3:1",
            "a b:1",
            "a:65536",
        ],
    ),
    ("store", &["memory:", "redis://127.0.0.1", "rediss://u:p@h:1/2"], &["memory", "redis:", "redis://", "memory:x"]),
    ("ttl_min", &["50ms", "24h", "1h 30m"], &["49ms", "0s", "1", "-1s"]),
    ("ttl_max", &["1s", "24h"], &["24h 1s", "forever"]),
    ("wait_max", &["0s", "1h"], &["1h 1s"]),
    ("waiters_per_lock", &["1", "1000000"], &["0", "1000001", "-1", "many", "99999999999999999999"]),
    ("leases_per_stream", &["1", "1000000"], &["0", "1000001"]),
    ("drain_timeout", &["0s", "5m"], &["5m 1s"]),
    ("admin_listen", &["none", ":0", "[::1]:7429", "localhost:7429"], &["", "None", "off", "7429", "unix:/a"]),
    ("admin_tls", &["false"], &["maybe", "true"]),
    ("admin_service", &["everywhere", "admin"], &["", "nowhere"]),
    ("test_faults", &["", "127.0.0.1:0", "localhost:1"], &["none", "7429", "unix:/a"]),
    (
        "otlp_endpoint",
        &["", "http://localhost:4317", "http://[::1]:4317/", "http://127.0.0.1:1"],
        &["localhost:4317", "https://localhost:4317", "http://:4317", "http://localhost", "http://a b:1"],
    ),
    ("log_format", &["text", "json"], &["xml", "JSON"]),
    ("log_level", &["debug", "info,fencepost::locks=debug", "off"], &["inof", "", "info,fencepost=loud", "debug,"]),
];

#[test]
fn every_rule_holds_at_its_edges() {
    for (key, good, bad) in EDGES {
        for text in good {
            let loaded = load(&[(key, text)], &[], None);
            assert!(loaded.is_ok(), "{key} = {text:?}: {}", loaded.unwrap_err());
        }
        for text in bad {
            let flag = options::OPTIONS.iter().find(|option| option.key == key).unwrap().flag();
            assert!(refused(&[(key, text)]).contains(&format!("--{flag}")), "{key} = {text:?}");
        }
    }
}

#[test]
fn the_ttl_range_must_not_be_empty() {
    let text = refused(&[("ttl_min", "2m"), ("ttl_max", "1m")]);
    assert!(text.contains("--ttl-min = \"2m\": must not be above ttl_max, which is 1m"), "{text}");
    let text = refused(&[("ttl_max", "500ms")]);
    assert!(text.contains("ttl_min (by default) = \"1s\""), "{text}");
}

#[test]
fn the_printed_file_reads_back_the_same() {
    let flags = [
        ("listen", "[::1]:1234"),
        ("tls_cert", "/etc/it's.pem"),
        ("tls_key", "key.pem"),
        ("tls_client_ca", "/etc/ca.pem"),
        ("connections_max", "9"),
        ("connections_per_peer", "8"),
        ("store", "rediss://127.0.0.1"),
        ("store_ca", "/etc/it's.pem"),
        ("store_cert", "cert.pem"),
        ("store_key", "key.pem"),
        ("store_user", "me"),
        ("store_password_file", "/etc/it's"),
        ("store_prefix", "team-a"),
        ("allow_eviction", "true"),
        ("classic_prefix", "lock:\"'{x}"),
        ("ttl_min", "1500ms"),
        ("ttl_max", "1h 30m"),
        ("wait_max", "90s"),
        ("waiters_per_lock", "11"),
        ("waiters_per_server", "12"),
        ("leases_per_stream", "13"),
        ("drain_timeout", "0s"),
        ("admin_listen", "localhost:1235"),
        ("admin_tls", "true"),
        ("admin_service", "everywhere"),
        ("otlp_endpoint", "http://localhost:4317"),
        ("log_format", "json"),
        ("log_level", "info,fencepost[wait{lock=\"a\"}]=debug"),
    ];
    for config in [Config::default(), load(&flags, &[], None).unwrap()] {
        let text = config.to_toml();
        assert_eq!(load(&[], &[], Some(&text)).unwrap(), config, "{text}");
        for option in options::in_file() {
            assert!(text.contains(&format!("# {}\n{} = ", option.help, option.key)), "{} in {text}", option.key);
        }
    }
}

#[test]
fn the_listen_address_is_printed_as_written() {
    for text in ["127.0.0.1:0", "[::1]:7420", "[::]:7420", ":7420", "localhost:7420", "unix:/run/a b.sock"] {
        let config = load(&[], &[("FENCEPOST_LISTEN", text)], None).unwrap();
        assert!(config.to_toml().contains(&format!("\nlisten = \"{text}\"\n")), "{text}");
        assert_eq!(load(&[], &[], Some(&config.to_toml())).unwrap(), config, "{text}");
    }
    // A URL is no address to listen on.
    assert!(refused(&[("listen", "http://localhost:7420")]).contains("must be host:port"));
}

#[test]
fn the_table_names_flags_and_variables() {
    let option = options::in_file().find(|option| option.key == "ttl_min").unwrap();
    assert_eq!((option.flag().as_str(), option.variable().as_str()), ("ttl-min", "FENCEPOST_TTL_MIN"));
    assert!(options::OPTIONS.iter().any(|option| option.variable() == options::FILE_VARIABLE));
}

#[test]
fn options_of_tls_that_do_not_fit_together_are_refused() {
    let (cert, key, ca) = (("tls_cert", "/c.pem"), ("tls_key", "/k.pem"), ("tls_client_ca", "/ca.pem"));
    for (flags, says) in [
        (&[cert][..], "--tls-cert = \"/c.pem\": needs the private key of the certificate as well: --tls-key"),
        (&[key], "--tls-key = \"/k.pem\": needs the certificate of the key as well: --tls-cert"),
        (&[ca], "--tls-client-ca = \"/ca.pem\": needs a certificate of the server"),
        (&[cert, key, ("listen", "unix:/a.sock")], "--tls-cert = \"/c.pem\": cannot be used on a Unix socket"),
    ] {
        let text = refused(flags);
        assert!(text.contains("a problem") && text.contains(says), "{text}");
    }
    let files = TlsFiles { cert: "/c.pem".into(), key: "/k.pem".into(), client_ca: Some("/ca.pem".into()) };
    assert_eq!(load(&[cert, key, ca], &[], None).unwrap().tls, Some(files));
}
