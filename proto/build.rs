//! Compiles the API with protox, a protobuf compiler in Rust, so that no machine needs a system `protoc`.

use prost::Message;
use std::{env, error::Error, fs, path::PathBuf};

const FILES: [&str; 2] = ["fencepost/v1/lock.proto", "fencepost/v1/admin.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    // Only `rerun-if-changed` lines stop cargo from rebuilding at every touch of the folder.
    println!("cargo:rerun-if-changed=fencepost");
    println!("cargo:rerun-if-changed=build.rs");
    let mut files = protox::compile(FILES, ["."])?;
    tonic_prost_build::configure()
        .build_client(env::var_os("CARGO_FEATURE_CLIENT").is_some())
        .build_server(env::var_os("CARGO_FEATURE_SERVER").is_some())
        .codec_path("crate::codec::SmallBuffers")
        .compile_fds(files.clone())?;
    // Reflection and the JSON mapping need no comments: without them the descriptor set is a fraction of its size.
    for file in &mut files.file {
        file.source_code_info = None;
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.binpb"), files.encode_to_vec())?;
    Ok(())
}
