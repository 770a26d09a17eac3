//! The rules of locks: pure, with no async, no I/O, no clock and no transport.

pub mod binding;
pub(crate) mod codec;
pub mod command;
pub mod ended;
pub mod features;
pub mod ids;
pub mod lease;
pub mod limits;
pub mod mode;
pub mod name;
pub mod outcome;
pub mod queue;
pub mod replicas;
pub mod rules;
pub mod time;
pub mod token;
