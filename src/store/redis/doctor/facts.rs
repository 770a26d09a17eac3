//! What Redis says of itself, and how single answers are picked out of it.

use crate::domain::time::StoreTime;
use std::collections::BTreeMap;

/// Everything that is judged. What Redis refused to tell is there as the reason why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The text of INFO.
    pub info: Result<String, String>,
    /// What CONFIG GET says of the settings that matter.
    pub settings: Result<BTreeMap<String, String>, String>,
    /// Whether scripts may be run. Not asked where they run already.
    pub scripts: Result<(), String>,
    /// Whether messages may be sent on the channels of servers.
    pub channels: Result<(), String>,
    /// What the meta key fixes; none if there is no meta key.
    pub meta: Result<Option<Meta>, String>,
    /// Both clocks.
    pub clock: Result<ClockSample, String>,
}

/// What the meta key fixes for all servers on a Redis. A field that it lacks is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Into how many buckets the names of locks are divided.
    pub buckets: String,
    /// The version of the layout.
    pub layout: String,
    /// The prefix of classic locks, which may be none; nothing, if that is not fixed yet.
    pub classic: Option<String>,
}

/// Redis looked at its clock somewhen between the sending of the question and the arrival of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSample {
    /// Our clock at the sending.
    pub sent: StoreTime,
    /// What Redis said.
    pub redis: StoreTime,
    /// Our clock at the arrival.
    pub received: StoreTime,
}

impl Facts {
    /// A field of INFO that says something.
    pub(super) fn info(&self, name: &str) -> Option<&str> {
        let lines = self.info.as_ref().ok()?.lines();
        let mut found = lines.filter_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'));
        found.next().filter(|value| !value.is_empty())
    }

    pub(super) fn info_number(&self, name: &str) -> Option<u64> {
        self.info(name)?.parse().ok()
    }

    /// A setting, also an empty one.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.as_ref().ok()?.get(name).map(String::as_str)
    }

    pub(super) fn setting_number(&self, name: &str) -> Option<u64> {
        self.setting(name)?.parse().ok()
    }

    /// The lines of INFO about replicas, one for each.
    pub(super) fn replicas(&self) -> impl Iterator<Item = &str> {
        let lines = self.info.as_deref().unwrap_or_default().lines();
        lines.filter_map(|line| {
            let (name, value) = line.trim_end().split_once(':')?;
            name.strip_prefix("slave")?.parse::<u32>().ok().map(|_| value)
        })
    }
}
