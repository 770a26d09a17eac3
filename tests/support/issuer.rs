//! An issuer of JSON Web Tokens.
#![allow(dead_code, reason = "no test uses all of it")]
#![allow(clippy::unwrap_used, reason = "test code")]

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ring::{
    hmac,
    rand::SystemRandom,
    rsa::PublicKeyComponents,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
    },
};
use serde_json::{Value, json};

/// A key for tests, because ring makes none for RSA. As PKCS #8.
const RSA_KEY: &str = "\
    MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQDD+MNx6sLs7Hpa0IKKuqTf/5t+blVsQanIJevFD2DVuC8Eue4Y\
    FxzJtOHSBHddN207LUm8q2OFGpO9oEFna3YwOootRYXRVGSh5Mip+urVvIgFin4B3GdyEbvb4A1gtjqDyRbyhr8FXHJwY2SGWnFY\
    eQPI6I9Dc4kBsNrNj8DPdV5iS6Nx0WZ6txSndID4uZMG0JOk5uZcZCXujaBfHgwtpeSybKoqLLC8n+PSIYxfhrNr4lyYLaeULXx1\
    X9Mv84xximlmqQJy5I45gMnQS1wuyVg2cFs1WlEcyQS1ZpU40tS8o9wZUSsjOUtKPZvPtCdahvX+zvR0Q7IZ8lgyPIARAgMBAAEC\
    ggEAAr2o8uy6OzJ3gTh0JIwsIChLPKWlMwI1skntfHBIBdUxblrkKWWxWy5yqUt/5XrcxglOt041i+s6PVqCot3a5YPI4o2bxVJT\
    2GI1xQ+jimFWDOKWyC0Uxho/ZJNDb9XWOnk5uLyi6uh6S6roNGs+NWMqTWLYFhs4kFOwsiCCxtcyhBeVqAa2Xu1hGvUmGpkjCRYX\
    xiDVt/w7j6Ph5GQNoEptEXN9scdyedDn9jrhmSywZJHLG2eri+F/LV/9baBI2gKvj3ezCP5CkXcrT9+1rbyNLOXg5HPtjd3ymCMv\
    KlLFWY7xrA9+IqWwkuK4vQJaTuz8qb73CFBfT7OA8O8ujQKBgQDu2t2h47NAyd8NKPDQ7KU3bil3ODD/2kSW4mJmWliMzQD9jVd2\
    KGVCXYss8zfljLxBV2aAhXcbTHxSi3pMcjplE/0//JsoNcEJIQP7zX4Nf6jK02lUR4izI085Py2yqxuPPf+S0ga3LrqEo76mNNth\
    Adr4Gd6mgO4o/Ek0z/Hb9wKBgQDSCeMn7U8/bjft7ba5q27Iken0+4ne5+lHeOnVybA18Gjdy3887LyUSCDJNdEQ4iClAbgcFmf3\
    7uuv9EuijeB03uGvGNGqAcpTETABY4sENi9S1UyS37ycvz4e5AvVkHiFlZLLQpvIw+QnSurCg3jxyE580uN2iaX3BmtYxjAyNwKB\
    gQDN+igOp5G5WVzkuF2Tjb+cYX+Ys/htawijJW693UNniJJGFVFLL+LCrHCMvuGBLzBZGMnoIzBndjnv5R/+NLNu3yIRwAD9V/2z\
    pakNyFPfyCsDXfUDHP0hnl1/fKAn567IhCqVrlDkP4PRRnPuWL6mlTcDpSuAYsb+yTFIPdrQWQKBgCbjWcF8uJ1/5K8SwjAiQ4Kz\
    MWQAZoh028Y15uWEUDHMbz4RfV9kXY3+xMM8SZccpvqmFNZud5V6EP0k+BQCvLomwhZPPBKD/lfe6Mp5CbYf6icmAuV2s086QWAq\
    zN4fv5DMHr+vd3R2gHmd71VQTkZF1fJagW7jEW1pLNrk5uuFAoGBALiXsb+tm1a+TIy6H2qIOrWDLmsUrO6ZqlEt3SvEiXfgIOyL\
    FDBUlChzi6zXcly0GjAnD8q8eucDdkdy6W2gVYPDZE5jL7G14N2aFGJGf3hsK0shj7t1oRk+ERWqxWe+/Qg2hXU88bs9lq74K1x6\
    TZtOAg0tMV8U4NlcPjY19KMp";

/// An issuer with a key for each algorithm. The id of a key is the name of its algorithm.
pub(crate) struct Issuer {
    rsa: RsaKeyPair,
    p256: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
}

fn part(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Issuer {
    /// An issuer. Its keys are new, but for that of RSA.
    pub(crate) fn new() -> Self {
        let random = SystemRandom::new();
        let p256 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        Self {
            rsa: RsaKeyPair::from_pkcs8(&STANDARD.decode(RSA_KEY).unwrap()).unwrap(),
            p256: EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, p256.as_ref(), &random).unwrap(),
            ed25519: Ed25519KeyPair::from_pkcs8(ed25519.as_ref()).unwrap(),
        }
    }

    /// The public keys, as a JSON Web Key Set.
    pub(crate) fn keys(&self) -> Vec<Value> {
        let PublicKeyComponents { n, e } = PublicKeyComponents::<Vec<u8>>::from(self.rsa.public());
        let point = self.p256.public_key().as_ref();
        let (x, y) = (part(&point[1..33]), part(&point[33..]));
        vec![
            json!({"kty": "RSA", "kid": "RS256", "use": "sig", "n": part(n), "e": part(e)}),
            json!({"kty": "EC", "kid": "ES256", "crv": "P-256", "x": x, "y": y}),
            json!({"kty": "OKP", "kid": "EdDSA", "crv": "Ed25519", "x": part(self.ed25519.public_key())}),
        ]
    }

    /// The same as a file.
    pub(crate) fn key_set(&self) -> String {
        json!({"keys": self.keys()}).to_string()
    }

    /// A token of this algorithm.
    pub(crate) fn token(&self, algorithm: &str, claims: &Value) -> String {
        self.signed(algorithm, &json!({"alg": algorithm, "kid": algorithm, "typ": "JWT"}), claims)
    }

    /// A token with this header, signed by this algorithm. HS256 is keyed with the public key of RSA, which everybody
    /// knows.
    pub(crate) fn signed(&self, algorithm: &str, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", part(header.to_string()), part(claims.to_string()));
        let (random, bytes) = (SystemRandom::new(), message.as_bytes());
        let signature = match algorithm {
            "RS256" => {
                let mut signature = vec![0; self.rsa.public().modulus_len()];
                self.rsa.sign(&RSA_PKCS1_SHA256, &random, bytes, &mut signature).unwrap();
                signature
            }
            "ES256" => self.p256.sign(&random, bytes).unwrap().as_ref().to_vec(),
            "EdDSA" => self.ed25519.sign(bytes).as_ref().to_vec(),
            "HS256" => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, self.rsa.public().as_ref());
                hmac::sign(&key, bytes).as_ref().to_vec()
            }
            "none" => Vec::new(),
            other => panic!("no such algorithm: {other}"),
        };
        format!("{message}.{}", part(signature))
    }
}
