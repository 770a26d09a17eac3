//! Turns of List. A page takes milliseconds to collect and to encode, without a pause.

use std::sync::Arc;
use tokio::{sync::Mutex, task::yield_now};

/// Keeps pages apart, so that a beat waits for one of them at the most.
#[derive(Clone, Debug, Default)]
pub(super) struct PageTurns(Arc<Mutex<()>>);

impl PageTurns {
    /// Resolves when a page may be collected. Between two pages, the runtime looks for messages that have arrived, and
    /// runs the tasks that take them: it does so before it goes on with a task that yields.
    pub(super) async fn next(&self) {
        let _turn = self.0.lock().await;
        yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[tokio::test]
    async fn what_arrives_during_a_page_comes_before_the_next_page() {
        const PAGES: usize = 3;
        let turns = PageTurns::default();
        let (order, seen) = channel();
        let mut pages = Vec::new();
        for _ in 0..PAGES {
            let (turns, order) = (turns.clone(), order.clone());
            pages.push(tokio::spawn(async move {
                turns.next().await;
                order.send("page").ok();
                tokio::spawn(async move { order.send("message").ok() });
            }));
        }
        for page in pages {
            page.await.ok();
        }
        yield_now().await;
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), ["page", "message"].repeat(PAGES));
    }
}
