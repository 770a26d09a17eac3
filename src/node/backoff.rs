//! How long to wait before the next attempt to connect.

use std::time::Duration;
use uuid::Uuid;

const SHORTEST: Duration = Duration::from_millis(50);
/// The longest wait.
pub(super) const LONGEST: Duration = Duration::from_secs(1);

/// Doubles from 50 ms to 1 s. Each wait is drawn from its upper half, so that the links of all servers do not come at
/// once when Redis is back.
#[derive(Debug)]
pub(super) struct Backoff(Duration);

impl Backoff {
    pub(super) fn new() -> Self {
        Self(SHORTEST)
    }

    /// What it was about has worked.
    pub(super) fn reset(&mut self) {
        self.0 = SHORTEST;
    }

    /// Waits. Dropped, it leaves nothing behind.
    pub(super) async fn wait(&mut self) {
        let span = self.0;
        self.0 = (self.0 * 2).min(LONGEST);
        tokio::time::sleep(jittered(span)).await;
    }
}

/// Half of `span` to all of it, at random.
pub(super) fn jittered(span: Duration) -> Duration {
    // The low 32 bits of a UUID v4 are random ones.
    let [a, b, c, d] = Uuid::new_v4().as_bytes()[12..] else { return span };
    let part = f64::from(u32::from_be_bytes([a, b, c, d])) / f64::from(u32::MAX);
    span.mul_f64(0.5 + part / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_grow_to_the_longest_and_start_over() {
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
