//! Client of Fencepost.
