//! Nodes as Redis servers: connections, scripts, and requirements.

pub mod addresses;
pub(crate) mod classic_prefix;
pub mod client;
pub mod connections;
pub mod doctor;
pub(crate) mod driver;
pub(crate) mod health;
pub mod keys;
mod layout;
mod requirements;
pub mod scripts;
