//! The gRPC API of Fencepost. The comments in `fencepost/v1/*.proto` are its manual; they appear here as documentation.
#![allow(missing_docs)] // generated code: the proto files document what a reader needs
#![allow(clippy::large_enum_variant)] // messages live for the moment between the wire and their use
#![allow(clippy::too_many_lines)] // generated code: one function for all methods of a service

mod codec;

/// Package `fencepost.v1`.
pub mod v1 {
    tonic::include_proto!("fencepost.v1");

    /// The compiled descriptors of this package and of what it imports, for server reflection and JSON.
    pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.binpb"));
}
