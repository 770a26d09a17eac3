//! Scenarios of every rule.
