//! Policies from files, and what they make of credentials.

use super::*;
use crate::clock::unix_time;
use issuer::Issuer;
use serde_json::{Value, json};
use std::fs;

#[path = "../../tests/support/issuer.rs"]
mod issuer;
mod mistakes;
mod urls;

/// A folder with an access file, and the keys of an issuer.
struct Folder {
    folder: tempfile::TempDir,
    issuer: Issuer,
}

impl Folder {
    fn new() -> Self {
        let it = Self { folder: tempfile::tempdir().unwrap(), issuer: Issuer::new() };
        fs::write(it.path("jwks.json"), it.issuer.key_set()).unwrap();
        it
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the access file, in which KEYS stands for the file of the keys.
    fn write(&self, text: &str) {
        fs::write(self.path("access.toml"), text.replace("KEYS", &self.path("jwks.json").display().to_string()))
            .unwrap();
    }

    fn load(&self, text: &str) -> Result<Policy, AccessError> {
        self.write(text);
        load(&self.path("access.toml"))
    }

    fn refusal(&self, text: &str) -> String {
        self.load(text).map(|_| ()).unwrap_err().to_string()
    }
}

/// The quota of an entry with these lines.
pub(super) fn quota(lines: &str) -> Arc<Quota> {
    let folder = Folder::new();
    let policy = folder.load(&format!("{ENFORCE}[[quota]]\nwho = [\"a\"]\n{lines}\n")).unwrap();
    policy.quotas.of_identity("a").unwrap().clone()
}

/// An entry for a token that is this text.
fn token(name: &str, secret: &str, rest: &str) -> String {
    format!("[[token]]\nname = \"{name}\"\nsha256 = \"{}\"\n{rest}\n", token::Digest::of(secret.as_bytes()))
}

const ISSUER: &str = r#"
[[jwt]]
issuer = "https://issuer.example"
audience = "fencepost"
keys = "KEYS"
algorithms = ["RS256", "ES256", "EdDSA"]
prefix = "k8s:"
"#;

const ENFORCE: &str = "mode = \"enforce\"\n";

fn claims() -> Value {
    json!({"iss": "https://issuer.example", "aud": "fencepost", "sub": "billing", "exp": unix_time() + 600})
}

fn with(key: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[key] = value;
    claims
}

fn without(key: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(key);
    claims
}

fn name_of(policy: &Policy, bearer: &str) -> Result<String, Refusal> {
    policy.identify(Some(bearer), None, unix_time()).map(|identity| (*identity.name).into())
}

#[test]
fn a_static_token_is_known_until_it_expires() {
    let folder = Folder::new();
    let text = token("billing", "one", "expires = 2001-09-09T03:46:40+02:00") + &token("billing", "two", "");
    let policy = folder.load(&format!("{ENFORCE}{text}")).unwrap();
    let at = |now| policy.identify(Some("one"), None, now).map(|identity| identity.name);
    assert_eq!((at(999_999_999), at(1_000_000_000)), (Ok("billing".into()), Err(Refusal::Expired)));
    assert_eq!(name_of(&policy, "two"), Ok("billing".into()), "two tokens of one name are valid");
    for other in ["", "three", "on", "one ", "ONE"] {
        assert_eq!(name_of(&policy, other), Err(Refusal::Invalid), "{other}");
    }
    assert_eq!(policy.identify(None, None, 0).unwrap_err(), Refusal::Missing);
}

#[test]
fn keys_may_be_beside_the_access_file() {
    let folder = Folder::new();
    fs::create_dir(folder.path("keys")).unwrap();
    fs::rename(folder.path("jwks.json"), folder.path("keys/cluster.json")).unwrap();
    let policy = folder.load(&format!("{ENFORCE}{}", ISSUER.replace("KEYS", "keys/cluster.json"))).unwrap();
    assert_eq!(name_of(&policy, &folder.issuer.token("ES256", &claims())), Ok("k8s:billing".into()));
    // Not those in the folder of the process.
    assert!(fs::exists("Cargo.toml").unwrap());
    let refusal = folder.refusal(&format!("{ENFORCE}{}", ISSUER.replace("KEYS", "Cargo.toml")));
    assert!(refusal.contains("Cargo.toml") && refusal.contains("No such file"), "{refusal}");
}

#[test]
fn each_algorithm_of_the_entry_is_verified() {
    let folder = Folder::new();
    let policy = folder.load(&format!("{ENFORCE}{ISSUER}")).unwrap();
    for algorithm in ["RS256", "ES256", "EdDSA"] {
        let signed = folder.issuer.token(algorithm, &claims());
        assert_eq!(name_of(&policy, &signed), Ok("k8s:billing".into()), "{algorithm}");
        let anonymous = folder.issuer.signed(algorithm, &json!({"alg": algorithm}), &claims());
        assert_eq!(name_of(&policy, &anonymous), Ok("k8s:billing".into()), "{algorithm} without the id of a key");
        let (head, _) = signed.rsplit_once('.').unwrap();
        let other = folder.issuer.token(algorithm, &with("sub", json!("other")));
        let (_, signature) = other.rsplit_once('.').unwrap();
        assert_eq!(name_of(&policy, &format!("{head}.{signature}")), Err(Refusal::Invalid), "{algorithm}");
        assert_eq!(name_of(&policy, &format!("{head}.")), Err(Refusal::Invalid), "{algorithm}");
        assert_eq!(name_of(&policy, head), Err(Refusal::Invalid), "{algorithm}");
    }
    let only = folder.load(&format!("{ENFORCE}{ISSUER}").replace("\"RS256\", \"ES256\", ", "")).unwrap();
    assert_eq!(name_of(&only, &folder.issuer.token("EdDSA", &claims())), Ok("k8s:billing".into()));
    assert_eq!(name_of(&only, &folder.issuer.token("ES256", &claims())), Err(Refusal::Invalid));
}

#[test]
fn the_header_of_a_token_chooses_nothing_that_the_file_does_not_name() {
    let folder = Folder::new();
    let policy = folder.load(&format!("{ENFORCE}{ISSUER}")).unwrap();
    let stranger = Issuer::new();
    let own_key = json!({"alg": "ES256", "jwk": stranger.keys()[1], "jku": "https://stranger.example"});
    let refused = [
        folder.issuer.token("none", &claims()),
        folder.issuer.signed("none", &json!({"alg": "RS256", "kid": "RS256"}), &claims()),
        folder.issuer.token("HS256", &claims()),
        folder.issuer.signed("HS256", &json!({"alg": "HS256", "kid": "RS256"}), &claims()),
        folder.issuer.signed("HS256", &json!({"alg": "RS256", "kid": "RS256"}), &claims()),
        folder.issuer.signed("ES256", &json!({"alg": "RS256", "kid": "RS256"}), &claims()),
        folder.issuer.signed("ES256", &json!({"alg": "ES256", "kid": "EdDSA"}), &claims()),
        folder.issuer.signed("ES256", &json!({"alg": "ES256", "kid": "unknown"}), &claims()),
        folder.issuer.signed("ES256", &json!({"alg": "ES256", "crit": ["exp"]}), &claims()),
        folder.issuer.signed("ES256", &json!({"alg": "ES256", "enc": "A128GCM"}), &claims()),
        stranger.token("ES256", &claims()),
        stranger.signed("ES256", &own_key, &claims()),
        "a.b.c".to_owned(),
        "..".to_owned(),
    ];
    for token in refused {
        assert_eq!(name_of(&policy, &token), Err(Refusal::Invalid), "{token}");
    }
}

#[test]
fn the_claims_of_a_token_have_to_fit() {
    let folder = Folder::new();
    let policy = folder.load(&format!("{ENFORCE}{ISSUER}")).unwrap();
    let now = unix_time();
    let of = |claims: &Value| name_of(&policy, &folder.issuer.token("ES256", claims));
    let invalid = [
        with("aud", json!("other")),
        with("aud", json!(["other", "fencepost2"])),
        with("iss", json!("https://other.example")),
        with("iss", json!(["https://issuer.example"])),
        with("nbf", json!(now + 600)),
        with("exp", json!("soon")),
        with("sub", json!("")),
        with("sub", json!(7)),
        with("sub", json!("a\nb")),
        with("sub", json!("x".repeat(600))),
        without("aud"),
        without("iss"),
        without("exp"),
        without("sub"),
    ];
    for claims in &invalid {
        assert_eq!(of(claims), Err(Refusal::Invalid), "{claims}");
    }
    for expired in [now, now - 1, now - 600, 0] {
        assert_eq!(of(&with("exp", json!(expired))), Err(Refusal::Expired), "{expired}");
    }
    let (past, several, part) = (with("nbf", json!(now)), json!(["other", "fencepost"]), json!(now as f64 + 60.5));
    for claims in [past, with("aud", several), with("exp", part)] {
        assert_eq!(of(&claims), Ok("k8s:billing".into()), "{claims}");
    }
}

#[test]
fn another_claim_may_name_the_identity_and_issuers_stay_apart() {
    let folder = Folder::new();
    let entry = ISSUER.replace("prefix", "claim = \"client\"\nprefix");
    let policy = folder.load(&format!("{ENFORCE}{entry}")).unwrap();
    let signed = folder.issuer.token("EdDSA", &with("client", json!("ship")));
    assert_eq!(name_of(&policy, &signed), Ok("k8s:ship".into()));
    let second = ISSUER.replace("issuer.example", "second.example");
    let refusal = folder.refusal(&format!("{ENFORCE}{ISSUER}{}", second.replace("k8s:", "k8s:a")));
    assert!(refusal.starts_with("line 15, column 10: another issuer has this prefix"), "{refusal}");
    let two_audiences = ISSUER.replace("\"fencepost\"", "\"other\"");
    let policy = folder.load(&format!("{ENFORCE}{two_audiences}{ISSUER}")).unwrap();
    assert_eq!(name_of(&policy, &folder.issuer.token("EdDSA", &claims())), Ok("k8s:billing".into()));
    assert_eq!(name_of(&policy, &folder.issuer.token("EdDSA", &with("exp", json!(1)))), Err(Refusal::Expired));
}

#[test]
fn keys_that_check_no_signature_are_refused() {
    let folder = Folder::new();
    let refusal = |keys: Value| {
        fs::write(folder.path("jwks.json"), json!({"keys": keys}).to_string()).unwrap();
        folder.refusal(&format!("{ENFORCE}{ISSUER}"))
    };
    let [rsa, p256, ed25519]: [Value; 3] = folder.issuer.keys().try_into().unwrap();
    let changed = |key: &Value, name: &str, value: Value| {
        let mut key = key.clone();
        key[name] = value;
        json!([key])
    };
    for keys in [
        json!([]),
        changed(&rsa, "use", json!("enc")),
        changed(&rsa, "alg", json!("PS256")),
        changed(&rsa, "n", json!("AQAB")),
        changed(&p256, "crv", json!("P-384")),
        changed(&p256, "x", json!("AQAB")),
        changed(&p256, "key_ops", json!(["encrypt"])),
        changed(&ed25519, "x", json!("AQAB")),
        json!([{"kty": "oct", "k": "c2VjcmV0"}]),
    ] {
        let refusal = refusal(keys.clone());
        assert!(refusal.contains("has no public key for RS256, ES256, EdDSA"), "{keys} {refusal}");
        assert!(refusal.starts_with("line 6, column 8: "), "{refusal}");
    }
    fs::write(folder.path("jwks.json"), "{").unwrap();
    assert!(folder.refusal(&format!("{ENFORCE}{ISSUER}")).contains("is not a JSON Web Key Set"));
    fs::remove_file(folder.path("jwks.json")).unwrap();
    assert!(folder.refusal(&format!("{ENFORCE}{ISSUER}")).contains("cannot be read"));
}

#[test]
fn rules_are_for_those_whom_they_name() {
    let folder = Folder::new();
    let rules = r#"
[[rule]]
who = ["billing", "k8s:pay:*"]
may = ["acquire", "read"]
locks = ["billing/"]

[[rule]]
who = ["*"]
may = ["check"]
locks = [""]

[[rule]]
who = ["root"]
may = ["operate"]
"#;
    let policy = folder.load(&(ENFORCE.to_owned() + &token("root", "root", "") + rules)).unwrap();
    let line = |name, verb, lock| policy.permitting(name, verb, lock).map(|by| (by.rule, by.line, by.locks));
    assert_eq!(line("billing", Verb::Acquire, "billing/1"), Some((1, 8, Some("billing/".into()))));
    assert_eq!(line("k8s:pay:x", Verb::Read, "billing/1"), Some((1, 8, Some("billing/".into()))));
    assert_eq!(line("k8s:pay", Verb::Read, "billing/1"), None);
    assert_eq!(line("billing2", Verb::Read, "billing/1"), None);
    assert_eq!(line("billing", Verb::Force, "billing/1"), None);
    assert_eq!(line("nobody", Verb::Check, "any"), Some((2, 13, Some(String::new()))));
    assert_eq!(line("root", Verb::Operate, ""), Some((3, 18, None)));
    let identity = policy.identify(Some("root"), None, 0).unwrap();
    assert!(identity.grants.permit(Verb::Operate) && identity.grants.permit_lock(Verb::Check, "any"));
    assert!(!identity.grants.permit_lock(Verb::Acquire, "billing/1"));
}

#[test]
fn the_first_quota_that_names_an_identity_is_its_quota() {
    let folder = Folder::new();
    let quotas = r#"
[[quota]]
who = ["billing", "k8s:pay:*"]
acquires_per_second = 20
waits = 7

[[quota]]
who = ["*"]
streams = 3
mode = "observe"
"#;
    let policy = folder.load(&(ENFORCE.to_owned() + quotas)).unwrap();
    let shown = |name| policy.quota(name).unwrap().to_string();
    assert_eq!(shown("billing"), "line 3: acquires_per_second 20 (burst 20), waits 7");
    assert_eq!(shown("k8s:pay:x"), shown("billing"));
    assert_eq!(shown("k8s:pay"), "line 8: streams 3 (mode is observe: nothing is refused yet)");
    assert!(policy.quotas.of_address().is_none(), "nobody without an identity is named");
}

#[test]
fn the_example_can_be_used() {
    let folder = Folder::new();
    let example = include_str!("../../deploy/access/access.toml").replace("/etc/fencepost/access/jwks.json", "KEYS");
    let policy = folder.load(&example).unwrap();
    assert_eq!((policy.mode, policy.counts()), (Mode::Observe, [1, 1, 2, 3, 1]));
    let claims = with("iss", json!("https://kubernetes.default.svc.cluster.local"));
    let pod = |name: &str| {
        let mut claims = claims.clone();
        claims["sub"] = json!(format!("system:serviceaccount:{name}"));
        policy.identify(Some(&folder.issuer.token("RS256", &claims)), None, unix_time()).unwrap()
    };
    assert!(pod("pay:billing").grants.permit_lock(Verb::Acquire, "billing/42"));
    assert!(!pod("other:billing").grants.permit(Verb::Acquire));
    assert!(pod("data:store").grants.permit_lock(Verb::Check, "billing/42"));
}

#[test]
fn a_change_counts_at_once_and_a_mistake_changes_nothing() {
    let folder = Folder::new();
    let (one, two) = (ENFORCE.to_owned() + &token("one", "1", ""), ENFORCE.to_owned() + &token("two", "2", ""));
    folder.write(&one);
    let access = Arc::new(Access::load(folder.path("access.toml")).unwrap());
    let connection = Connection::new(access.clone(), None, None);
    let credentials = connection.credentials(Some(b"Bearer 1"));
    let name = || credentials.verdict().identity.map(|identity| identity.name.clone());
    assert_eq!(name(), Ok("one".into()));
    assert_eq!(access.reload(), Reload::Unchanged);
    folder.write("mode = 1");
    assert!(matches!(access.reload(), Reload::Refused(_)));
    assert_eq!((access.reload(), name()), (Reload::Unchanged, Ok("one".into())), "a mistake is told once");
    folder.write(&two);
    assert_eq!((access.reload(), name()), (Reload::Loaded, Err(Refusal::Invalid)));
    folder.write(&one);
    assert_eq!((access.reload(), name()), (Reload::Loaded, Ok("one".into())));
    // The keys of an issuer are part of the policy.
    folder.write(&format!("{ENFORCE}{ISSUER}"));
    assert_eq!(access.reload(), Reload::Loaded);
    let signed = folder.issuer.token("ES256", &claims());
    let of_issuer = connection.credentials(Some(format!("Bearer {signed}").as_bytes()));
    assert!(of_issuer.verdict().identity.is_ok());
    fs::write(folder.path("jwks.json"), Issuer::new().key_set()).unwrap();
    assert_eq!(access.reload(), Reload::Loaded);
    assert_eq!(of_issuer.verdict().identity.unwrap_err(), Refusal::Invalid);
}

#[test]
fn a_connection_remembers_the_last_credentials_and_their_expiry() {
    let folder = Folder::new();
    folder.write(&(ENFORCE.to_owned() + &token("one", "1", "") + ISSUER));
    let access = Arc::new(Access::load(folder.path("access.toml")).unwrap());
    let connection = Connection::new(access, None, None);
    let first = connection.credentials(Some(b"Bearer 1"));
    assert!(Arc::ptr_eq(&first, &connection.credentials(Some(b"Bearer 1"))));
    assert!(!Arc::ptr_eq(&first, &connection.credentials(Some(b"Bearer 2"))));
    assert_eq!(connection.credentials(None).verdict().identity.unwrap_err(), Refusal::Missing);
    assert_eq!(connection.credentials(Some(b"")).verdict().identity.unwrap_err(), Refusal::Invalid);
    let short = folder.issuer.token("ES256", &with("exp", json!(unix_time() + 2)));
    let credentials = connection.credentials(Some(format!("bearer {short}").as_bytes()));
    assert!(credentials.verdict().identity.is_ok());
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    assert_eq!(credentials.verdict().identity.unwrap_err(), Refusal::Expired);
}
