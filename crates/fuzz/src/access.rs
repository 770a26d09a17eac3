//! Access: the file, what callers show as `authorization`, and client certificates.

use fencepost::testing::access::{Access, Certificate, Connection, load};
use std::{fs, sync::Arc};

/// The public key of RFC 7517, of which nobody here has the private one.
const KEYS: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"1",
    "x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}"#;

/// A folder with an access file that a server follows, and one for files that the input makes up.
struct Files {
    folder: tempfile::TempDir,
    access: Arc<Access>,
}

impl Files {
    fn make() -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let keys = folder.path().join("jwks.json");
        fs::write(&keys, KEYS).expect("a file can be written");
        let text = format!(
            "mode = \"enforce\"\n[[jwt]]\nissuer = \"i\"\naudience = \"a\"\nkeys = {keys:?}\nalgorithms = [\"ES256\"]\n\
             prefix = \"p:\"\n"
        );
        let path = folder.path().join("access.toml");
        fs::write(&path, text).expect("a file can be written");
        let access = Access::load(path).expect("the file can be used");
        Self { folder, access: Arc::new(access) }
    }
}

/// Any file, `authorization` or certificate. Nobody is known by a token that no key has signed.
pub fn access(bytes: &[u8]) {
    thread_local! {
        static FILES: Files = Files::make();
    }
    let Some((kind, bytes)) = bytes.split_first() else { return };
    FILES.with(|files| match kind % 3 {
        0 => {
            // Never read a path that the input made up: keys are those of a file that is not there.
            let text = String::from_utf8_lossy(bytes).replace('/', "");
            let path = files.folder.path().join("input.toml");
            fs::write(&path, text).expect("a file can be written");
            if let Err(error) = load(&path) {
                assert!(!error.to_string().is_empty());
            }
        }
        1 => {
            let credentials = Connection::new(files.access.clone(), None, None).credentials(Some(bytes));
            assert!(credentials.verdict().identity.is_err(), "{bytes:?} is known");
        }
        _ => {
            let known = Certificate::read(bytes);
            let connection = Connection::new(files.access.clone(), None, Some(bytes));
            assert!(connection.credentials(None).verdict().identity.is_err(), "{known:?} is known");
        }
    });
}
