//! Which store each server has. The servers of one client must share a store: a lock of one would exclude nobody on
//! another, and a lease that moves there would be lost.

use std::sync::{Mutex, PoisonError};

/// The ids of the stores, as the servers last told them.
#[derive(Debug)]
pub(crate) struct Stores(Mutex<Vec<Option<String>>>);

impl Stores {
    pub(crate) fn of(servers: usize) -> Self {
        Self(Mutex::new(vec![None; servers]))
    }

    /// A server told the id of its store. Returns another server that had a different one, if this is news.
    pub(crate) fn told(&self, server: usize, id: &str) -> Option<usize> {
        let mut ids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = ids.get_mut(server)?;
        if known.as_deref() == Some(id) {
            return None;
        }
        *known = Some(id.to_owned());
        ids.iter().position(|known| known.as_deref().is_some_and(|known| known != id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_different_store_is_news_once() {
        let stores = Stores::of(3);
        assert_eq!(stores.told(2, "x"), None);
        assert_eq!(stores.told(0, "x"), None);
        assert_eq!(stores.told(1, "y"), Some(0));
        assert_eq!(stores.told(1, "y"), None);
        assert_eq!(stores.told(0, "y"), Some(2));
        assert_eq!(stores.told(2, "y"), None, "all have it now");
    }
}
