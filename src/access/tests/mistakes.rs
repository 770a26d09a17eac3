//! What is refused in an access file, and where.

use super::*;

#[test]
fn a_mistake_has_its_place_and_shows_no_secret() {
    let folder = Folder::new();
    let rule = |text: &str| format!("{ENFORCE}[[rule]]\n{text}");
    let quota = |text: &str| format!("{ENFORCE}[[quota]]\n{text}");
    let long = "x".repeat(600);
    for (text, said) in [
        ("", "missing field `mode`"),
        ("mode = \"on\"", "line 1, column 8: unknown variant `on`"),
        ("mode = 1", "line 1, column 8: "),
        ("mode = \"enforce\"\ndefault = \"deny\"", "line 2, column 1: unknown field `default`"),
        ("mode = \"enforce\"\ntoken = \"fp_secret\"", "line 2, column 9: must be "),
        (
            "mode = \"enforce\"\n[[token]]\nname = \"a\"\nsha256 = \"fp_secret\"",
            "line 4, column 10: must be the SHA-256",
        ),
        (
            "mode = \"enforce\"\n[[token]]\nname = \"a\"\ntoken = \"fp_secret\"",
            "line 4, column 1: unknown field `token`",
        ),
        (&rule("who = [\"a\"]\nmay = [\"reed\"]"), "line 4, column 8: unknown variant `reed`"),
        (&rule("who = [\"a*b\"]\nmay = [\"read\"]"), "line 3, column 7: \"a*b\" may have one *, at its end"),
        (&rule("who = []\nmay = [\"read\"]\nlocks = [\"\"]"), "line 3, column 7: must name at least one identity"),
        (&rule("who = [\"a\"]\nmay = []"), "line 4, column 7: must name at least one verb"),
        (&rule("who = [\"a\"]\nmay = [\"read\"]"), "line 4, column 7: needs locks"),
        (&rule("who = [\"a\"]\nmay = [\"read\"]\nlocks = [\"b/*\"]"), "\"b/*\" is a prefix"),
        (&rule("who = [\"a\"]\nmay = [\"read\"]\nlock = [\"b/\"]"), "line 5, column 1: unknown field `lock`"),
        (
            &format!("{ENFORCE}{}", token("a", "x", "expires = 2027-06-01")),
            "line 5, column 11: must be a date and time",
        ),
        (&format!("{ENFORCE}{}", token(&long, "x", "")), "line 3, column 8: must have 1 to 512 bytes"),
        (
            &format!("{ENFORCE}{}{}", token("a", "x", ""), token("b", "x", "")),
            "line 8, column 10: this token is in the",
        ),
        (&format!("{ENFORCE}{}", ISSUER.replace("\"RS256\"", "\"HS256\"")), "unknown variant `HS256`"),
        (&format!("{ENFORCE}{}", ISSUER.replace("\"RS256\", \"ES256\", \"EdDSA\"", "")), "must name at least one of"),
        (&format!("{ENFORCE}{}", ISSUER.replace("k8s:", "")), "must have 1 to 512 bytes"),
        ("mode = \"enforce\"\n[[certificate]]\nsan = \"a*\"", "line 3, column 7: * must be a whole segment"),
        ("mode = \"enforce\"\nx = [", "line 2, column "),
        (&quota("who = [\"a\"]"), "line 2, column 1: a quota needs at least one of acquires_per_second, waits, leases"),
        (
            &quota("who = [\"a\"]\nacquires_per_second = 100\nburst = 19"),
            "line 5, column 9: must be at least 20, a fifth",
        ),
        (&quota("who = [\"a\\nb\"]\nwaits = 1"), "line 3, column 7: must have 1 to 512 bytes"),
        (&quota("waits = 1"), "line 2, column 1: a quota needs either who, or each_address = true"),
        (
            &quota("who = [\"a\"]\neach_address = true\nwaits = 1"),
            "line 2, column 1: a quota needs either who, or each_address",
        ),
        (&quota("who = []\nwaits = 1"), "line 3, column 7: must name at least one identity"),
        (&quota("who = [\"a\"]\nwaits = 0"), "line 4, column 9: must be a nonzero u32"),
        (&quota("who = [\"a\"]\nwait = 1"), "line 4, column 1: unknown field `wait`"),
        (&quota("who = [\"a\"]\nburst = 1\nwaits = 1"), "line 4, column 9: burst needs acquires_per_second"),
        (&quota("who = [\"a\"]\nacquires_per_second = 1000001"), "line 4, column 23: must be at most 1000000"),
        (&quota("who = [\"a\"]\nwaits = 1\nmode = \"open\""), "line 5, column 8: unknown variant `open`"),
        (
            &(quota("each_address = true\nwaits = 1\n") + "[[quota]]\neach_address = true\nwaits = 1"),
            "line 5, column 1: another quota has each_address",
        ),
    ] {
        let refusal = folder.refusal(text);
        assert!(refusal.contains(said) && !refusal.contains("secret"), "{text}\n{refusal}");
    }
    assert_eq!(
        load(&folder.path("none")).map(|_| ()).unwrap_err().to_string().split(':').next(),
        Some("cannot be read")
    );
}
