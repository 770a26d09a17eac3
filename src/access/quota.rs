//! Quotas: how much of this server one caller may use at a time, and how fast it may acquire.

use super::{
    error::{AccessError, place},
    file::{QuotaEntry, QuotaMode, Who},
};
use std::{fmt, num::NonZeroU32, sync::Arc};
use toml::Spanned;

/// How often a client tries again in a second, at most: see [`RETRY_DELAY`](crate::domain::limits::RETRY_DELAY).
const RETRIES_PER_SECOND: u32 = 5;

/// What a quota limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Acquires in a second.
    AcquiresPerSecond,
    /// Acquires that wait now.
    Waits,
    /// Leases that streams keep now, and acquires under way.
    Leases,
    /// Streams that are open now.
    Streams,
    /// Connections that are open now, and have carried a call that a quota may refuse.
    Connections,
}

impl Limit {
    /// All limits.
    pub const ALL: [Self; 5] = [Self::AcquiresPerSecond, Self::Waits, Self::Leases, Self::Streams, Self::Connections];

    /// The limit, as the file names it.
    pub fn text(self) -> &'static str {
        match self {
            Self::AcquiresPerSecond => "acquires_per_second",
            Self::Waits => "waits",
            Self::Leases => "leases",
            Self::Streams => "streams",
            Self::Connections => "connections",
        }
    }
}

/// How much one caller may use. Each caller for which the entry is has as much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Whether anything is refused.
    pub mode: QuotaMode,
    max: [Option<u32>; Limit::ALL.len()],
    /// Acquires that may come at once.
    pub(super) burst: u32,
    /// Where the entry is in the file.
    line: usize,
}

impl Quota {
    /// The most that this limit allows.
    pub fn max(&self, limit: Limit) -> Option<u32> {
        self.max[limit as usize]
    }

    fn of(entry: &Spanned<QuotaEntry>, text: &str) -> Result<Self, AccessError> {
        let (span, entry) = (entry.span(), entry.get_ref());
        let number = |number: Option<NonZeroU32>| number.map(NonZeroU32::get);
        let acquires = number(entry.acquires_per_second.map(|acquires| acquires.0));
        let max =
            [acquires, number(entry.waits), number(entry.leases), number(entry.streams), number(entry.connections)];
        if max.iter().all(Option::is_none) {
            let names = Limit::ALL.map(Limit::text).join(", ");
            return Err(AccessError::at(text, &span, format!("a quota needs at least one of {names}")));
        }
        let burst = match (&entry.burst, acquires) {
            (Some(burst), None) => {
                return Err(AccessError::at(text, &burst.span(), "burst needs acquires_per_second beside it"));
            }
            // Who is refused comes again after 200 ms at the earliest, so a smaller one would bound the rate.
            (Some(burst), Some(rate)) if burst.get_ref().get() < rate.div_ceil(RETRIES_PER_SECOND) => {
                let least = rate.div_ceil(RETRIES_PER_SECOND);
                let why =
                    format!("must be at least {least}, a fifth of acquires_per_second: clients try 5 times a second");
                return Err(AccessError::at(text, &burst.span(), why));
            }
            (Some(burst), Some(_)) => burst.get_ref().get(),
            // What a second allows may come at once.
            (None, acquires) => acquires.unwrap_or_default(),
        };
        Ok(Self { mode: entry.mode, max, burst, line: place(text, span.start).0 })
    }
}

/// As the file has it, for people.
impl fmt::Display for Quota {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}:", self.line)?;
        let limits = Limit::ALL.into_iter().filter_map(|limit| Some((limit, self.max(limit)?)));
        for (index, (limit, max)) in limits.enumerate() {
            write!(out, "{} {} {max}", if index == 0 { "" } else { "," }, limit.text())?;
            if limit == Limit::AcquiresPerSecond {
                write!(out, " (burst {})", self.burst)?;
            }
        }
        match self.mode {
            QuotaMode::Observe => out.write_str(" (mode is observe: nothing is refused yet)"),
            QuotaMode::Enforce => Ok(()),
        }
    }
}

/// All quotas of a file.
#[derive(Debug, Default)]
pub(super) struct Quotas {
    identities: Vec<(Vec<Who>, Arc<Quota>)>,
    each_address: Option<Arc<Quota>>,
}

impl Quotas {
    pub(super) fn new(entries: Vec<Spanned<QuotaEntry>>, text: &str) -> Result<Self, AccessError> {
        let mut all = Self::default();
        for entry in entries {
            let quota = Arc::new(Quota::of(&entry, text)?);
            let span = entry.span();
            let refused = |why| Err(AccessError::at(text, &span, why));
            let entry = entry.into_inner();
            match (entry.who, entry.each_address) {
                (Some(who), false) if who.get_ref().is_empty() => {
                    return Err(AccessError::at(text, &who.span(), "must name at least one identity"));
                }
                (Some(who), false) => all.identities.push((who.into_inner(), quota)),
                (None, true) if all.each_address.is_some() => {
                    return refused("another quota has each_address = true: one may have it");
                }
                (None, true) => all.each_address = Some(quota),
                _ => {
                    return refused("a quota needs either who, or each_address = true for callers without an identity");
                }
            }
        }
        Ok(all)
    }

    /// That of an identity: the first that names it, so that it has one.
    pub(super) fn of_identity(&self, name: &str) -> Option<&Arc<Quota>> {
        self.identities.iter().find(|(who, _)| who.iter().any(|who| who.includes(name))).map(|(_, quota)| quota)
    }

    /// That of each address, for callers without an identity.
    pub(super) fn of_address(&self) -> Option<&Arc<Quota>> {
        self.each_address.as_ref()
    }

    pub(super) fn len(&self) -> usize {
        self.identities.len() + usize::from(self.each_address.is_some())
    }
}
