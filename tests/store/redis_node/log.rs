//! What the server logs, for all tests of this process together: each finds its own lines by the port of its Redis.

use std::{
    io::Write,
    sync::{Mutex, Once},
};

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Writer;

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// From now on.
pub(crate) fn keep() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing_subscriber::fmt().with_writer(|| Writer).with_ansi(false).init());
}

pub(crate) fn lines_with(part: &str) -> Vec<String> {
    let text = String::from_utf8_lossy(&LOG.lock().unwrap()).into_owned();
    text.lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
}
