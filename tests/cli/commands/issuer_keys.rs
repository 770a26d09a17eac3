//! `keys = "https://…"` of an issuer: fetched by the server from a real TLS server.

use crate::{
    authority::Authority,
    issuer::Issuer,
    support::{Ended, Process, Server, fencepost},
};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use serde_json::json;
use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
    time::SystemTime,
};

/// What an issuer answers.
type Answer = Arc<Mutex<String>>;

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

/// Serves an answer over TLS for as long as the process lives. Returns the port.
fn serve(authority: &Authority, answer: Answer) -> u16 {
    let files = authority.server();
    let chain = CertificateDer::pem_file_iter(files.certificate).unwrap().collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_file(files.key).unwrap();
    let config = Arc::new(ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that does not trust the certificate goes away.
            let _ = respond(stream.unwrap(), config.clone(), &answer);
        }
    });
    port
}

fn respond(stream: TcpStream, config: Arc<ServerConfig>, answer: &Answer) -> std::io::Result<()> {
    let connection = ServerConnection::new(config).unwrap();
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    let mut line = String::new();
    while stream.read_line(&mut line)? > 2 {
        line.clear();
    }
    let answer = answer.lock().unwrap().clone();
    let stream = stream.get_mut();
    stream.write_all(answer.as_bytes())?;
    stream.conn.send_close_notify();
    stream.flush()
}

/// The folder of the files of a test.
struct Folder(tempfile::TempDir);

impl Folder {
    fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.0.path().join(name), text).unwrap();
        self.0.path().join(name)
    }

    /// A file of this name with a token of this issuer.
    fn token(&self, name: &str, issuer: &Issuer) -> String {
        // The time of the system, which is that of a new file.
        let now = tempfile::tempfile().unwrap().metadata().unwrap().modified().unwrap();
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let claims = json!({"iss": "https://issuer.example", "aud": "fencepost", "sub": "app", "exp": now + 600});
        self.write(name, &issuer.token("ES256", &claims)).display().to_string()
    }
}

fn access(url: &str) -> String {
    format!(
        "mode = \"enforce\"\n[[jwt]]\nissuer = \"https://issuer.example\"\naudience = \"fencepost\"\nkeys = \"{url}\"\n\
         algorithms = [\"ES256\"]\nprefix = \"i:\"\n[[rule]]\nwho = [\"i:app\"]\nmay = [\"read\"]\nlocks = [\"\"]\n"
    )
}

fn get(server: &Server, token: &str) -> Ended {
    server.run(&["get", "a", "--credentials", token])
}

#[test]
fn keys_are_fetched_at_the_start_and_without_them_tokens_are_refused() {
    let (folder, authority) = (Folder(tempfile::tempdir().unwrap()), Authority::new("issuer"));
    let issuer = Issuer::new();
    let answered = Answer::new(Mutex::new(answer("200 OK", &issuer.key_set())));
    let port = serve(&authority, answered.clone());
    let rules = folder.write("access.toml", &access(&format!("https://127.0.0.1:{port}/jwks.json")));
    let (rules, roots) = (rules.display().to_string(), authority.file());
    let start = || Server::start_in(&["--access", &rules], &[("SSL_CERT_FILE", roots.as_path())]);

    let server = start();
    let (token, other) = (folder.token("token", &issuer), folder.token("other", &Issuer::new()));
    get(&server, &token).expect(0);
    get(&server, &other).expect(77);

    // Without keys, the tokens of the issuer are refused.
    for (bad, said) in [
        (answer("503 Service Unavailable", ""), "it answers 503 Service Unavailable"),
        (answer("302 Found", ""), "redirects are not followed"),
        (answer("200 OK", "{\"keys\": []}"), "has no public key for ES256"),
        (answer("200 OK", &" ".repeat(300_000)), "it has more than 262144 bytes"),
    ] {
        *answered.lock().unwrap() = bad;
        let server = start();
        get(&server, &token).expect(77);
        let log = server.log();
        assert!(log.contains("no keys of an issuer yet: its tokens are refused") && log.contains(said), "{log}");
        assert!(log.contains("\"level\":\"ERROR\""), "{log}");
    }
    let stranger = Authority::new("stranger");
    *answered.lock().unwrap() = answer("200 OK", &issuer.key_set());
    let server = Server::start_in(&["--access", &rules], &[("SSL_CERT_FILE", stranger.file().as_path())]);
    get(&server, &token).expect(77);
    assert!(server.log().contains("TLS failed: invalid peer certificate"), "{}", server.log());
}

#[test]
fn keys_are_not_fetched_in_plain_text() {
    let folder = Folder(tempfile::tempdir().unwrap());
    let file = folder.write("access.toml", &access("http://127.0.0.1/jwks.json")).display().to_string();
    let check = ["access", "check", "--file", &file, "--as", "i:app", "read", "a"];
    let refused = Process::start(&mut fencepost(&check)).ended().expect(78);
    refused.says("line 5, column 8: must begin with https://");
}
