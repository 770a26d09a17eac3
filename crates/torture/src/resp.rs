//! The part of Redis' protocol that the harness needs, on a direct connection without a proxy.

use anyhow::{Context, Result, bail};
use std::{path::Path, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    time::timeout,
};

const ANSWER_MAX: Duration = Duration::from_secs(15);

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Text(String),
    Int(i64),
    Nil,
    List(Vec<Answer>),
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Int(number) => number.to_string(),
            Self::Nil => String::new(),
            Self::List(parts) => parts.iter().map(Self::text).collect::<Vec<_>>().join(" "),
        }
    }

    pub(crate) fn int(&self) -> i64 {
        if let Self::Int(number) = self { *number } else { -1 }
    }

    pub(crate) fn list(self) -> Vec<Answer> {
        if let Self::List(parts) = self { parts } else { Vec::new() }
    }
}

/// Runs commands one after the other on one connection. An error reply is an error.
pub(crate) async fn ask_all(socket: &Path, commands: &[Vec<String>]) -> Result<Vec<Answer>> {
    let exchange = async {
        let (input, mut output) = UnixStream::connect(socket).await?.into_split();
        let mut input = BufReader::new(input);
        let mut answers = Vec::with_capacity(commands.len());
        for words in commands {
            let mut out = format!("*{}\r\n", words.len());
            for word in words {
                out.push_str(&format!("${}\r\n{word}\r\n", word.len()));
            }
            output.write_all(out.as_bytes()).await?;
            answers.push(read(&mut input).await.with_context(|| words.join(" "))?);
        }
        Ok(answers)
    };
    timeout(ANSWER_MAX, exchange).await.context("Redis does not answer")?
}

pub(crate) async fn ask(socket: &Path, words: &[&str]) -> Result<Answer> {
    let command = words.iter().map(|word| (*word).to_owned()).collect();
    ask_all(socket, &[command]).await?.pop().context("no answer")
}

async fn read(input: &mut BufReader<impl tokio::io::AsyncRead + Unpin + Send>) -> Result<Answer> {
    let mut line = String::new();
    if input.read_line(&mut line).await? == 0 {
        bail!("the connection was closed");
    }
    let (kind, rest) = line.trim_end().split_at(1);
    let number = rest.parse::<i64>().unwrap_or(-1);
    Ok(match (kind, usize::try_from(number)) {
        ("+", _) => Answer::Text(rest.to_owned()),
        ("-", _) => bail!("{rest}"),
        (":", _) => Answer::Int(number),
        ("$", Ok(length)) => {
            let mut bytes = vec![0; length + 2];
            input.read_exact(&mut bytes).await?;
            bytes.truncate(length);
            Answer::Text(String::from_utf8_lossy(&bytes).into_owned())
        }
        ("*", Ok(length)) => {
            let mut parts = Vec::with_capacity(length);
            for _ in 0..length {
                parts.push(Box::pin(read(input)).await?);
            }
            Answer::List(parts)
        }
        _ => Answer::Nil,
    })
}
