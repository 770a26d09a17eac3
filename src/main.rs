//! Fencepost.
fn main() {}
