//! Torture of Fencepost: real servers, stores and clients under real faults. Each run is recorded as a history, which
//! is then checked.

pub mod checks;
pub mod history;
pub mod nodes;
pub mod report;
pub mod steps;
pub mod totals;
pub mod verdict;
