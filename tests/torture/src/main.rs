//! The torture harness.

fn main() {}
