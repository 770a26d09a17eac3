//! Pauses between attempts to connect.

use std::time::Duration;

const SHORTEST: Duration = Duration::from_millis(50);
/// The longest pause.
pub(super) const LONGEST: Duration = Duration::from_secs(1);

/// Pauses that double from 50 ms to 1 s. Each is drawn at random from its upper half, so that the connections of all
/// servers do not come at once when Redis is back.
#[derive(Debug)]
pub(super) struct Backoff(Duration);

impl Backoff {
    pub(super) fn new() -> Self {
        Self(SHORTEST)
    }

    /// Starts over with the shortest pause.
    pub(super) fn reset(&mut self) {
        self.0 = SHORTEST;
    }

    /// Pauses. Dropped, it leaves nothing behind.
    pub(super) async fn wait(&mut self) {
        let span = self.0;
        self.0 = (self.0 * 2).min(LONGEST);
        tokio::time::sleep(jittered(span)).await;
    }
}

/// A random duration from half of `span` to all of it.
pub(super) fn jittered(span: Duration) -> Duration {
    span.mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_the_longest_and_start_over() {
        let mut backoff = Backoff::new();
        let mut last = Duration::ZERO;
        for nominal in [50, 100, 200, 400, 800, 1_000, 1_000] {
            let before = tokio::time::Instant::now();
            backoff.wait().await;
            last = before.elapsed();
            let most = Duration::from_millis(nominal + 1);
            assert!(last >= most / 2 - Duration::from_millis(1) && last <= most, "{nominal}: {last:?}");
        }
        assert!(last > Duration::from_millis(400));
        backoff.reset();
        assert!(backoff.0 == SHORTEST && jittered(LONGEST) <= LONGEST);
    }
}
