//! The store in Redis: the rules, run as scripts by the Redis that all server replicas share.

pub mod answer;
pub mod keys;
pub mod scripts;
