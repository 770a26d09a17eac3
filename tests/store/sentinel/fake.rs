//! Sentinels that say what a test wants: enough of RESP for a client to ask one.

use crate::{Redis, place, world::NAME};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinSet,
};

/// What a fake says.
#[derive(Clone, Default)]
struct Says {
    /// The primary, and the number of its configuration.
    primary: (u16, u64),
    /// Its host, if not 127.0.0.1.
    host: Option<&'static str>,
    /// What `SENTINEL MASTER` has as its address, if not that.
    stale: Option<u16>,
    /// Whether it answers nothing.
    silent: bool,
    /// How long it takes.
    slow: Duration,
    /// How many switches it has told of.
    switches: u64,
    /// How often it was asked.
    asked: u64,
}

/// A fake Sentinel. Dropped, it closes all its connections.
pub(crate) struct Fake {
    pub(crate) port: u16,
    says: watch::Sender<Says>,
    tasks: Arc<Mutex<JoinSet<()>>>,
}

impl Fake {
    pub(crate) async fn naming(redis: &Redis, epoch: u64) -> Self {
        Self::at(0, redis, epoch).await
    }

    /// A fake at this port.
    pub(crate) async fn at(port: u16, redis: &Redis, epoch: u64) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let says = watch::Sender::new(Says { primary: (redis.port, epoch), ..Says::default() });
        let tasks = Arc::new(Mutex::new(JoinSet::new()));
        let (own, all) = (says.clone(), Arc::downgrade(&tasks));
        let accepting = async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Some(tasks) = all.upgrade() else { return };
                tasks.lock().unwrap().spawn(serve(stream, own.clone()));
            }
        };
        tasks.lock().unwrap().spawn(accepting);
        Self { port, says, tasks }
    }

    pub(crate) fn names(&self, redis: &Redis, epoch: u64) {
        self.says.send_modify(|says| says.primary = (redis.port, epoch));
    }

    /// It writes the host of the primary like this.
    pub(crate) fn names_the_host(&self, host: &'static str) {
        self.says.send_modify(|says| says.host = Some(host));
    }

    /// `SENTINEL MASTER` has this address from now on, as at a Sentinel that leads a failover.
    pub(crate) fn is_stale(&self, redis: &Redis) {
        self.says.send_modify(|says| says.stale = Some(redis.port));
    }

    /// Whether it takes questions and answers none.
    pub(crate) fn is_silent(&self, silent: bool) {
        self.says.send_modify(|says| says.silent = silent);
    }

    /// How long it takes to answer.
    pub(crate) fn is_slow(&self, slow: Duration) {
        self.says.send_modify(|says| says.slow = slow);
    }

    pub(crate) fn tells_of_a_switch(&self) {
        self.says.send_modify(|says| says.switches += 1);
    }

    pub(crate) fn asked(&self) -> u64 {
        self.says.borrow().asked
    }

    /// Closes everything.
    pub(crate) async fn ends(self) -> u16 {
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap());
        tasks.shutdown().await;
        self.port
    }
}

/// The URL of these.
pub(crate) fn url(fakes: &[&Fake]) -> String {
    let places: Vec<String> = fakes.iter().map(|fake| format!("127.0.0.1:{}", fake.port)).collect();
    format!("redis+sentinel://{}/{NAME}", places.join(","))
}

async fn serve(stream: TcpStream, says: watch::Sender<Says>) {
    let (reader, mut writer) = stream.into_split();
    let (mut reader, mut news) = (BufReader::new(reader), says.subscribe());
    let mut switches = says.borrow().switches;
    loop {
        tokio::select! {
            words = command(&mut reader) => {
                let Some(words) = words else { return };
                let now = says.borrow().clone();
                if now.silent {
                    std::future::pending::<()>().await;
                }
                if words.get(1).is_some_and(|word| word == "MASTER") {
                    says.send_modify(|says| says.asked += 1);
                }
                tokio::time::sleep(now.slow).await;
                answer(&mut writer, &words, &now).await;
            }
            _ = news.changed() => {
                let told = news.borrow_and_update().switches;
                if told > switches {
                    let text = format!("{NAME} 127.0.0.1 1 127.0.0.1 2");
                    let push = format!(">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n${}\r\n{text}\r\n", text.len());
                    let _ = writer.write_all(push.as_bytes()).await;
                }
                switches = told;
            }
        }
    }
}

/// Reads one command. Not cancelled half-way: a client writes each at once, and news come between.
async fn command(reader: &mut BufReader<OwnedReadHalf>) -> Option<Vec<String>> {
    // The only await that a command that has not begun waits in.
    reader.fill_buf().await.ok().filter(|bytes| !bytes.is_empty())?;
    let mut line = String::new();
    reader.read_line(&mut line).await.ok()?;
    let mut words = Vec::new();
    for _ in 0..line.trim_start_matches('*').trim().parse().ok()? {
        line.clear();
        reader.read_line(&mut line).await.ok()?;
        let mut word = vec![0; line.trim_start_matches('$').trim().parse::<usize>().ok()? + 2];
        reader.read_exact(&mut word).await.ok()?;
        words.push(String::from_utf8_lossy(&word[..word.len() - 2]).into_owned());
    }
    Some(words)
}

async fn answer(writer: &mut OwnedWriteHalf, words: &[String], says: &Says) {
    let list = |texts: &[String]| {
        texts.iter().fold(format!("*{}\r\n", texts.len()), |out, text| format!("{out}${}\r\n{text}\r\n", text.len()))
    };
    let (port, epoch) = says.primary;
    let answer = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["HELLO", ..] => "%1\r\n$5\r\nproto\r\n:3\r\n".to_owned(),
        ["SUBSCRIBE", channel] => format!(">3\r\n$9\r\nsubscribe\r\n${}\r\n{channel}\r\n:1\r\n", channel.len()),
        ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", _] => {
            list(&[says.host.unwrap_or("127.0.0.1").to_owned(), port.to_string()])
        }
        ["SENTINEL", "MASTER", name] => {
            let stale = says.stale.unwrap_or(port).to_string();
            let fields = ["name", name, "ip", "127.0.0.1", "port", &stale, "config-epoch", &epoch.to_string()];
            list(&fields.map(str::to_owned))
        }
        _ => "+OK\r\n".to_owned(),
    };
    let _ = writer.write_all(answer.as_bytes()).await;
}

/// How a fake shows in words.
pub(crate) fn said(fake: &Fake, redis: &Redis, epoch: u64) -> String {
    format!("127.0.0.1:{} says {} (config-epoch {epoch})", fake.port, place(redis))
}
