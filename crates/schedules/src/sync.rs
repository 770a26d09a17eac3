//! Replaces the server's `sync`: the same names, with a scheduling point at each use.

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

    /// Locks it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lock for many readers or one writer, with the interface of `parking_lot`'s.
#[derive(Debug, Default)]
pub struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Locks it for reading.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks it for writing.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// tokio's `Notify`, with a scheduling point before each use.
#[derive(Debug)]
pub struct Notify {
    notify: real_tokio::sync::Notify,
    point: AtomicUsize,
}

impl Notify {
    /// Without waiters or a stored notification.
    pub fn new() -> Self {
        Self { notify: real_tokio::sync::Notify::new(), point: AtomicUsize::new(0) }
    }

    /// Wakes one waiter, or the next one.
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

/// A scheduling point.
pub fn point() {
    AtomicUsize::new(0).load(Ordering::SeqCst);
}
