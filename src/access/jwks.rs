//! The public keys of an issuer, from its JSON Web Key Set.

use super::signature;
use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, KeyOperations, PublicKeyUse},
};

/// A public key, for one algorithm.
pub(super) struct Key {
    id: Option<String>,
    algorithm: Algorithm,
    pub(super) key: DecodingKey,
}

impl Key {
    /// Whether a token with this algorithm, and this id of a key, may be signed with the key.
    pub(super) fn fits(&self, algorithm: Algorithm, id: Option<&str>) -> bool {
        let is_named = self.id.as_deref().zip(id).is_none_or(|(own, wanted)| own == wanted);
        self.algorithm == algorithm && is_named
    }
}

/// The keys of a set that check signatures of these algorithms. The error is the end of a sentence about the file.
pub(super) fn read(content: &[u8], algorithms: &[Algorithm]) -> Result<Vec<Key>, String> {
    let set: JwkSet = serde_json::from_slice(content)
        .map_err(|error| format!("is not a JSON Web Key Set (at line {}, column {})", error.line(), error.column()))?;
    let keys: Vec<Key> = set.keys.iter().filter_map(|jwk| key(jwk, algorithms)).collect();
    if keys.is_empty() {
        let named: Vec<String> = algorithms.iter().map(|algorithm| format!("{algorithm:?}")).collect();
        return Err(format!("has no public key for {} (of RSA: 2048 bits or more)", named.join(", ")));
    }
    Ok(keys)
}

fn key(jwk: &Jwk, algorithms: &[Algorithm]) -> Option<Key> {
    let (algorithm, named) = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
        AlgorithmParameters::EllipticCurve(curve) if curve.curve == EllipticCurve::P256 => {
            (Algorithm::ES256, KeyAlgorithm::ES256)
        }
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
            (Algorithm::EdDSA, KeyAlgorithm::EdDSA)
        }
        _ => return None,
    };
    let common = &jwk.common;
    let signs = common.public_key_use.as_ref().is_none_or(|of| *of == PublicKeyUse::Signature)
        && common.key_operations.as_ref().is_none_or(|of| of.contains(&KeyOperations::Verify))
        && common.key_algorithm.is_none_or(|of| of == named);
    if !signs || !algorithms.contains(&algorithm) {
        return None;
    }
    let key = DecodingKey::from_jwk(jwk).ok().filter(|key| signature::fits(algorithm, key))?;
    Some(Key { id: common.key_id.clone(), algorithm, key })
}
