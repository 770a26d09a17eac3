//! Fencepost.
