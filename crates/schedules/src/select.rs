//! tokio's `select!`, always biased: a random order could not be replayed by the scheduler.

/// See [`real_tokio::select`].
#[macro_export]
macro_rules! select {
    (biased; $($branches:tt)*) => { $crate::real_tokio::select! { biased; $($branches)* } };
    ($($branches:tt)*) => { $crate::real_tokio::select! { biased; $($branches)* } };
}
