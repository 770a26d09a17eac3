//! tokio's `select!`, always in the order written: a random one would not be the scheduler's to repeat.

/// See [`real_tokio::select`].
#[macro_export]
macro_rules! select {
    (biased; $($branches:tt)*) => { $crate::real_tokio::select! { biased; $($branches)* } };
    ($($branches:tt)*) => { $crate::real_tokio::select! { biased; $($branches)* } };
}
