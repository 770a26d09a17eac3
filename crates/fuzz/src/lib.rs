//! Fuzz targets for input from outside: requests of clients, answers of Redis, records that nodes kept, what servers
//! send each other, the configuration, and credentials. Each target takes any bytes and panics if the code under test
//! panics or gives a forbidden answer.

mod access;
mod body;
mod config;
mod parcel;
mod record;
mod request;
pub mod seeds;

pub use access::access;
pub use config::config;
pub use parcel::parcel;
pub use record::record;
pub use request::{METHODS, request};
