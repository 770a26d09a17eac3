//! Which nodes make a store: found, made, looked at, replaced, and rebuilt after a disaster.

pub mod bootstrap;
pub mod disaster_recovery;
pub mod discovery;
pub mod replace_node;
pub mod search;
pub mod status;
