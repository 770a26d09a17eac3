//! What stands in for the server's `sync`: the same names, and a place to go elsewhere at each use.

pub use shuttle::sync::{
    MutexGuard, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};
use std::sync::PoisonError;

/// A mutex with the interface of `parking_lot`'s.
#[derive(Debug, Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// A mutex around `value`.
    pub fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    /// Takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lock for many readers or one writer, with the interface of `parking_lot`'s.
#[derive(Debug, Default)]
pub struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Takes it to read.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes it to write.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// tokio's own, with a place to go elsewhere before each use.
#[derive(Debug)]
pub struct Notify {
    notify: real_tokio::sync::Notify,
    point: AtomicUsize,
}

impl Notify {
    /// Nobody waits, and there is nothing to be told.
    pub fn new() -> Self {
        Self { notify: real_tokio::sync::Notify::new(), point: AtomicUsize::new(0) }
    }

    /// Wakes one that waits, or the next that comes to wait.
    pub fn notify_one(&self) {
        self.point.load(Ordering::SeqCst);
        self.notify.notify_one();
    }

    /// Resolves when woken.
    pub async fn notified(&self) {
        self.point.load(Ordering::SeqCst);
        self.notify.notified().await;
    }
}

impl Default for Notify {
    fn default() -> Self {
        Self::new()
    }
}

/// A place to go elsewhere.
pub fn point() {
    AtomicUsize::new(0).load(Ordering::SeqCst);
}
