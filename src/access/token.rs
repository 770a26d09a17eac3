//! Static tokens. A token has 256 random bits, so that its SHA-256 tells nothing about it, and needs neither a salt nor
//! a slow hash. The access file has only the digests.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    digest::{SHA256, SHA256_OUTPUT_LEN, digest},
    rand::{SecureRandom as _, SystemRandom},
};
use serde::Deserialize;
use std::fmt;

/// How the tokens begin that [`NewToken`] makes, so that scanners for secrets find them.
const PREFIX: &str = "fp_";
/// Characters of the checksum at the end of such a token.
const CHECKSUM_CHARACTERS: usize = 6;

/// The SHA-256 of a token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Digest([u8; SHA256_OUTPUT_LEN]);

impl Digest {
    pub(super) fn of(token: &[u8]) -> Self {
        let mut bytes = [0; SHA256_OUTPUT_LEN];
        bytes.copy_from_slice(digest(&SHA256, token).as_ref());
        Self(bytes)
    }
}

impl TryFrom<String> for Digest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        // Without the text: somebody may have written the token itself.
        const RULE: &str = "must be the SHA-256 of a token, 64 hexadecimal digits: 'fencepost token new' prints one";
        let digits = text.as_bytes();
        if digits.len() != 2 * SHA256_OUTPUT_LEN {
            return Err(RULE);
        }
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok()).ok_or(RULE);
        let mut bytes = [0; SHA256_OUTPUT_LEN];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Digest")
    }
}

/// A token that was just made.
pub struct NewToken {
    /// The token, a secret: `fp_`, 43 random characters, and 6 of a checksum.
    pub token: String,
    /// Its SHA-256, for the access file.
    pub sha256: String,
}

impl NewToken {
    /// Makes a token; `None` if the system has no random numbers.
    pub fn make() -> Option<Self> {
        let mut random = [0; 32];
        SystemRandom::new().fill(&mut random).ok()?;
        let mut token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random));
        token.push_str(&checksum(&token));
        let sha256 = Digest::of(token.as_bytes()).to_string();
        Some(Self { token, sha256 })
    }
}

/// The checksum of a token without it: the first characters of its SHA-256. It tells a scanner that a text is a token,
/// and protects nothing.
fn checksum(token: &str) -> String {
    let mut text = URL_SAFE_NO_PAD.encode(Digest::of(token.as_bytes()).0);
    text.truncate(CHECKSUM_CHARACTERS);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_token_has_its_form_and_its_digest() {
        let (one, other) = (NewToken::make().unwrap(), NewToken::make().unwrap());
        assert_ne!(one.token, other.token);
        let (body, sum) = one.token.split_at(PREFIX.len() + 43);
        assert!(body.starts_with("fp_") && sum.len() == 6 && sum == checksum(body), "{}", one.token);
        assert_eq!(Digest::of(one.token.as_bytes()), Digest::try_from(one.sha256.clone()).unwrap());
        assert_eq!(Digest::try_from(one.sha256.to_uppercase()).unwrap().to_string(), one.sha256);
    }

    #[test]
    fn a_digest_is_64_digits_and_a_refusal_does_not_repeat_it() {
        // That of "test".
        let known = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        assert_eq!(Digest::of(b"test").to_string(), known);
        for bad in ["", "fp_secret", &known[1..], &known.replace('9', "g"), &known.replace('9', "é")] {
            let refusal = Digest::try_from(bad.to_owned()).unwrap_err();
            assert!(refusal.contains("64 hexadecimal digits") && !refusal.contains("secret"), "{bad}");
        }
    }
}
