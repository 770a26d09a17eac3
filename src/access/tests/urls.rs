//! Keys of issuers at URLs.

use super::*;

#[test]
fn keys_at_a_url_count_once_they_are_there_and_the_last_good_ones_stay() {
    let folder = Folder::new();
    folder.write(&format!("{ENFORCE}{}", ISSUER.replace("KEYS", "https://issuer.example/jwks")));
    let access = Access::load(folder.path("access.toml")).unwrap();
    let signed = folder.issuer.token("ES256", &claims());
    let identity = || access.policy().identify(Some(&signed), None, unix_time()).map(|it| it.name);
    let wanted = || access.keys_urls().into_iter().map(|(_, is_wanted)| is_wanted).collect::<Vec<_>>();
    assert_eq!((wanted(), identity()), (vec![true], Err(Refusal::Invalid)), "no keys, no identity");
    let (url, _) = access.keys_urls().remove(0);
    let offer = |keys: &str| access.offer_keys(url.clone(), keys.as_bytes().to_vec());
    assert!(offer("{}").unwrap_err().contains("is not a JSON Web Key Set"));
    assert!(!access.has_keys(&url) && access.reload() == Reload::Unchanged);
    let all = folder.issuer.key_set();
    offer(&all).unwrap();
    assert_eq!((access.has_keys(&url), access.reload()), (true, Reload::Loaded));
    assert_eq!((wanted(), identity()), (vec![false], Ok("k8s:billing".into())));
    // What cannot be used changes nothing.
    assert!(offer("{\"keys\": []}").unwrap_err().contains("has no public key"));
    assert_eq!((access.reload(), identity()), (Reload::Unchanged, Ok("k8s:billing".into())));
    // A token that names another key wants it, until the keys were fetched again.
    let rotated = all.replace("\"kid\":\"ES256\"", "\"kid\":\"new\"");
    assert_ne!(rotated, all);
    offer(&rotated).unwrap();
    assert_eq!((access.reload(), wanted(), identity()), (Reload::Loaded, vec![false], Err(Refusal::Invalid)));
    assert_eq!(wanted(), [true]);
    offer(&all).unwrap();
    assert_eq!((wanted(), access.reload(), identity()), (vec![false], Reload::Loaded, Ok("k8s:billing".into())));
}
