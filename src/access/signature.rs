//! Checks signatures of JSON Web Tokens with ring, the library of TLS: RS256, ES256 and EdDSA, and nothing else. What
//! `jsonwebtoken` brings with it would be a second library for each of them.

use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind,
    crypto::{CryptoProvider, JwtVerifier, KeyUtils},
    errors::{Error, ErrorKind, Result, new_error},
    signature::{Error as WrongSignature, Verifier},
};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
    VerificationAlgorithm,
};

/// The shortest modulus of an RSA key that ring uses, in bytes.
const RSA_BYTES_MIN: usize = 2_048 / 8;
/// An uncompressed point of P-256: a byte that says so, and two coordinates.
const P256_POINT_BYTES: usize = 1 + 2 * 32;
const ED25519_KEY_BYTES: usize = 32;

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(unsupported()),
    verifier_factory: verifier,
    // Only what makes keys from others calls these.
    key_utils: KeyUtils {
        rsa_pub_components_from_private_key: |_| Err(unsupported()),
        rsa_pub_components_from_public_key: |_| Err(unsupported()),
        ec_pub_components_from_private_key: |_, _| Err(unsupported()),
        ed_pub_components_from_private_key: |_, _| Err(unsupported()),
        compute_digest: |_, _| Err(unsupported()),
    },
};

fn unsupported() -> Error {
    new_error(ErrorKind::UnsupportedAlgorithm)
}

/// Lets `jsonwebtoken` use ring in this process.
pub(super) fn install() {
    // An error means that it does already.
    let _ = PROVIDER.install_default();
}

/// Checks signatures by one key.
struct Key {
    algorithm: Algorithm,
    public: Public,
}

enum Public {
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    Point(UnparsedPublicKey<Vec<u8>>),
}

/// Whether signatures of this algorithm can be checked with this key.
pub(super) fn fits(algorithm: Algorithm, key: &DecodingKey) -> bool {
    verifier(&algorithm, key).is_ok()
}

/// An algorithm fits only one type of key. Otherwise a public key could be taken for the secret of an HMAC.
fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let public = match (algorithm, key.family(), key.kind()) {
        (Algorithm::RS256, AlgorithmFamily::Rsa, DecodingKeyKind::RsaModulusExponent { n, e }) => {
            let (n, e) = (without_zeros(n), without_zeros(e));
            if n.len() < RSA_BYTES_MIN {
                return Err(new_error(ErrorKind::InvalidRsaKey("below 2048 bits".to_owned())));
            }
            Public::Rsa(RsaPublicKeyComponents { n, e })
        }
        (Algorithm::ES256, AlgorithmFamily::Ec, DecodingKeyKind::SecretOrDer(point)) => {
            Public::Point(unparsed(&ECDSA_P256_SHA256_FIXED, point, P256_POINT_BYTES)?)
        }
        (Algorithm::EdDSA, AlgorithmFamily::Ed, DecodingKeyKind::SecretOrDer(bytes)) => {
            Public::Point(unparsed(&ED25519, bytes, ED25519_KEY_BYTES)?)
        }
        _ => return Err(unsupported()),
    };
    Ok(Box::new(Key { algorithm: *algorithm, public }))
}

fn unparsed(
    algorithm: &'static dyn VerificationAlgorithm,
    key: &[u8],
    length: usize,
) -> Result<UnparsedPublicKey<Vec<u8>>> {
    if key.len() != length {
        return Err(new_error(ErrorKind::InvalidKeyFormat));
    }
    Ok(UnparsedPublicKey::new(algorithm, key.to_vec()))
}

/// Numbers begin with zeros in the keys of some issuers, which ring does not accept.
fn without_zeros(number: &[u8]) -> Vec<u8> {
    number.iter().copied().skip_while(|byte| *byte == 0).collect()
}

impl Verifier<Vec<u8>> for Key {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), WrongSignature> {
        let verified = match &self.public {
            Public::Rsa(key) => key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature),
            Public::Point(key) => key.verify(message, signature),
        };
        verified.map_err(|_| WrongSignature::new())
    }
}

impl JwtVerifier for Key {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
