//! An engine that does not know the line of flags: a real Redis behind a proxy that breaks this line.

use super::{COUNT, Kept, NodeError, Redis, Value};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
};

const HEADER: &[u8] = b"#!lua\n";
/// Loads a script that no engine compiles.
const BROKEN: &[u8] = b"*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$2\r\n#!\r\n";

/// A proxy for this port that sends a broken script in place of one with the line of flags, which comes alone: the
/// handshake waits for the answer. The number is that of such scripts.
async fn without_headers(port: u16) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (url, refused) = (format!("redis://{}", listener.local_addr().unwrap()), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&refused);
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let ((mut near_in, mut near_out), (mut far_in, mut far_out)) = (near.into_split(), far.into_split());
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                let mut bytes = vec![0; 64 * 1024];
                tokio::spawn(async move { copy(&mut far_in, &mut near_out).await });
                while let Ok(length @ 1..) = near_in.read(&mut bytes).await {
                    let has_header = bytes[..length].windows(HEADER.len()).any(|part| part == HEADER);
                    count.fetch_add(has_header.into(), Ordering::SeqCst);
                    let command = if has_header { BROKEN } else { &bytes[..length] };
                    far_out.write_all(command).await.unwrap();
                }
            });
        }
    });
    (url, refused)
}

#[tokio::test]
async fn an_engine_that_knows_no_line_of_flags_gets_scripts_without_it() {
    let redis = Redis::start(&[]);
    let (url, refused) = without_headers(redis.port).await;
    let kept = Kept::to_url(&url);
    kept.all_up().await;
    assert_eq!(refused.load(Ordering::SeqCst), 4, "each connection is asked once");
    assert!(!kept.connection().info().takes_headers);
    assert_eq!(kept.count().await, Ok(1));
    let reply: Result<Value, NodeError> = kept.connection().run(&COUNT, &["{7}n".into()], &[]).await;
    assert_eq!(reply, Ok(Value::Int(2)));
    assert_eq!(refused.load(Ordering::SeqCst), 4, "no script was sent with that line");
    let direct = Kept::to(&redis).await;
    assert!(direct.connection().info().takes_headers);
}
