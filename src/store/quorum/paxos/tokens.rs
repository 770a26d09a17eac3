//! The tokens of a partition across changes of its leader.

/// The tokens of a sequencer that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// Tokens up to this one may have been answered.
    pub acknowledged: u64,
    /// The highest that was drawn.
    pub drawn: u64,
}

impl Tokens {
    /// All that were drawn may have been answered.
    pub const fn all_answered(drawn: u64) -> Self {
        Self { acknowledged: drawn, drawn }
    }
}
