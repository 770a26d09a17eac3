//! Nodes that are Redis servers: connections, scripts, and what a Redis must be like.

pub mod addresses;
pub mod carrier;
pub(crate) mod classic_prefix;
pub mod connections;
pub mod doctor;
pub(crate) mod driver;
pub(crate) mod health;
mod requirements;
pub mod scripts;
