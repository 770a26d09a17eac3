//! Torture of Fencepost: real servers, stores and clients under real faults. What happened is written down as a
//! history, and the history is checked.

pub mod checks;
pub mod history;
pub mod report;
pub mod totals;
pub mod verdict;
