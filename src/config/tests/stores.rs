//! Options of stores that go together, and those that do not.

use super::*;

#[test]
fn sentinels_name_one_redis_and_none_of_a_list() {
    let url = "redis+sentinel://:secret@even:1,even:2,even:3/main?sentinel_password=secret";
    let config = load(&[("store", url), ("classic_prefix", "classic:")], &[], None).unwrap();
    assert_eq!(config.store, StoreUrl::Redis(vec![url.to_owned()]));
    let printed = config.to_toml();
    assert!(printed.contains("\"redis+sentinel://***@even:1,even:2,even:3/main?***\""), "{printed}");
    assert!(!printed.contains("secret"), "{printed}");
    assert!(load(&[], &[], Some(&printed)).unwrap_err().to_string().contains("FENCEPOST_STORE"));
    // The password of the Sentinels alone is not printed either.
    let (_, alone) = url.split_once('@').unwrap();
    let alone = load(&[("store", &format!("redis+sentinel://{alone}"))], &[], None).unwrap().to_toml();
    assert!(!alone.contains("secret"), "{alone}");
    assert!(load(&[], &[], Some(&alone)).unwrap_err().to_string().contains("FENCEPOST_STORE"));
    for wrong in ["redis+sentinel://odd/m?sentinel_password=secret", "sentinel://even/m?sentinel_password=secret"] {
        assert!(!refused(&[("store", wrong)]).contains("secret"));
    }
    let tls = StoreTls { ca: Some("/ca.pem".into()), ..StoreTls::default() };
    let with_tls = load(&[("store", "rediss+sentinel://even/main"), ("store_ca", "/ca.pem")], &[], None).unwrap();
    assert_eq!(with_tls.store_tls, tls);
    for list in ["redis://even,redis+sentinel://even,even/main,redis://even", "redis+sentinel://even/main,redis://even"]
    {
        let said = refused(&[("store", list)]);
        assert!(said.contains("names Sentinels in a list of Redis servers"), "{said}");
    }
}

#[test]
fn a_redis_cluster_is_one_node_without_classic_clients() {
    let url = "redis+cluster://:secret@even:1,even:2,even:3";
    let config = load(&[("store", url)], &[], None).unwrap();
    assert_eq!(config.store, StoreUrl::Redis(vec![url.to_owned()]));
    let printed = config.to_toml();
    assert!(printed.contains("\"redis+cluster://***@even:1,even:2,even:3\""), "{printed}");
    for list in ["redis://even,redis+cluster://even,even,redis://even", "redis+cluster://even,redis://even"] {
        let said = refused(&[("store", list)]);
        assert!(said.contains("names a Redis Cluster in a list of Redis servers"), "{said}");
    }
    let classic = refused(&[("store", url), ("classic_prefix", "classic:")]);
    assert!(classic.contains("cannot be used with a Redis Cluster"), "{classic}");
    assert!(!classic.contains("secret"), "{classic}");
}

#[test]
fn three_or_five_servers_keep_locks_in_a_majority() {
    let store = |text| load(&[("store", text)], &[], None).unwrap();
    let three = "redis://:a,b@even:1,rediss://even:2,redis://even:3";
    let config = store(three);
    assert_eq!(config.store.urls(), ["redis://:a,b@even:1", "rediss://even:2", "redis://even:3"]);
    let printed = config.to_toml();
    assert!(printed.contains("store = \"redis://***@even:1,rediss://even:2,redis://even:3\""), "{printed}");
    assert!(load(&[], &[], Some(&printed)).unwrap_err().to_string().contains("FENCEPOST_STORE"));
    assert_eq!(store("redis://:a,b@even").store.urls().len(), 1, "a password has the comma");
    for (count, text) in
        [(2, "redis://even:1,redis://even:2"), (4, "redis://even,redis://even,redis://even,redis://even")]
    {
        assert!(refused(&[("store", text)]).contains(&format!("names {count} Redis servers")));
    }
    assert!(refused(&[("store", "redis://even,redis://odd,redis://even")]).contains("is odd"));
    let classic = refused(&[("store", three), ("classic_prefix", "classic:")]);
    assert!(classic.contains("needs the one Redis"), "{classic}");
}

#[test]
fn one_redis_may_be_shared_with_classic_clients() {
    let settings = [("store", "redis://even:6390/2"), ("classic_prefix", "classic:")];
    assert_eq!(load(&settings, &[], None).unwrap().classic_prefix, "classic:");
}

/// With the prefix `{f`, the key of the classic lock `p}:node` would be a key of the store.
#[test]
fn classic_locks_cannot_use_our_keys() {
    let with = |prefix| load(&[("store", "redis://127.0.0.1"), ("classic_prefix", prefix)], &[], None);
    for (prefix, own) in [("fp:x", "fp:"), ("fp", "fp:"), ("{fp}:x", "{fp}:"), ("{f", "{fp}:"), ("{", "{fp}:")] {
        let text = with(prefix).unwrap_err().to_string();
        assert!(text.contains("--classic-prefix") && text.contains(&format!("start with {own}")), "{text}");
    }
    for prefix in ["lock:", "fpx", "p:", "{fpx}:", "{lock}"] {
        assert!(with(prefix).is_ok(), "{prefix}");
    }
}

#[test]
fn files_for_the_store_that_do_not_fit_together_are_refused() {
    let (ca, cert, key) = (("store_ca", "/ca.pem"), ("store_cert", "/c.pem"), ("store_key", "/k.pem"));
    let (plain, tls) = (("store", "redis://even"), ("store", "rediss://even"));
    for (flags, says) in [
        (&[tls, cert][..], "--store-cert = \"/c.pem\": needs the private key of the certificate as well: --store-key"),
        (&[tls, key], "--store-key = \"/k.pem\": needs the certificate of the key as well: --store-cert"),
        (&[ca], "--store-ca = \"/ca.pem\": needs a store with TLS: --store rediss://"),
        (&[plain, cert, key], "--store-cert = \"/c.pem\": needs a store with TLS: --store rediss://"),
    ] {
        let text = refused(flags);
        assert!(text.contains("a problem") && text.contains(says), "{text}");
    }
    let files = StoreTls { ca: Some("/ca.pem".into()), cert: Some("/c.pem".into()), key: Some("/k.pem".into()) };
    assert_eq!(load(&[tls, ca, cert, key], &[], None).unwrap().store_tls, files);
}

#[test]
fn a_user_needs_a_password_and_both_need_a_redis() {
    let (user, file, store) = (("store_user", "me"), ("store_password_file", "/p"), ("store", "redis://even"));
    for (flags, says) in [
        (&[store, user][..], "--store-user = \"me\": needs the file with its password as well: --store-password-file"),
        (&[file, user], "--store-password-file = \"/p\": needs a store on Redis: --store redis://"),
    ] {
        let text = refused(flags);
        assert!(text.contains("a problem") && text.contains(says), "{text}");
    }
    let login = load(&[store, user, file], &[], None).unwrap().store_login;
    assert_eq!(login, StoreLogin { user: "me".to_owned(), password_file: Some("/p".into()) });
    assert_eq!(load(&[store, file], &[], None).unwrap().store_login.user, "");
}
