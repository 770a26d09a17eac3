//! When a further send to a node may follow those that are under way.
//!
//! A send costs Redis and the server tens of microseconds each before its first command, and less than one for each
//! command. A server that sent each command as it came would spend most of the time of both on that, as soon as several
//! sends are under way. So a further send has at least half as many commands as all that are under way have together
//! (Nagle's rule, RFC 896, with a bound that grows). A command that comes alone is sent at once. Under load three sends
//! are under way, so that the node always has one to work on. A command waits until all of them are answered, at most:
//! one round trip.

/// Sends that may be under way to a node at a time.
pub(super) const UNDER_WAY_MAX: usize = 4;

/// Commands that wait for a send to a node, and those on their way to it.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Commands that were submitted after the last send.
    pub(super) waiting: usize,
    /// Sends under way.
    sends: usize,
    /// Commands in these.
    commands: usize,
}

/// A send that is under way: how many commands it has.
#[derive(Debug)]
pub(super) struct Size(usize);

impl Pace {
    /// Whether another send may be under way, once there are enough commands for it.
    pub(super) fn has_room(&self) -> bool {
        self.sends < UNDER_WAY_MAX
    }

    /// Whether what waits may be sent now. Requests that are no commands, such as the parts of a snapshot, need none.
    pub(super) fn may_send(&self) -> bool {
        self.has_room() && 2 * self.waiting >= self.commands
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.sends == 0
    }

    /// What waited is sent.
    pub(super) fn sends(&mut self) -> Size {
        let size = std::mem::take(&mut self.waiting);
        self.sends += 1;
        self.commands += size;
        Size(size)
    }

    /// A send was answered.
    pub(super) fn answered(&mut self, Size(size): Size) {
        self.sends -= 1;
        self.commands -= size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has so many commands wait, and sends them if they may be sent.
    fn submit(pace: &mut Pace, commands: usize) -> Option<Size> {
        pace.waiting += commands;
        pace.may_send().then(|| pace.sends())
    }

    #[test]
    fn a_further_send_has_half_as_many_commands_as_those_under_way() {
        let mut pace = Pace::default();
        let first = submit(&mut pace, 1).expect("nothing is under way");
        let second = submit(&mut pace, 1).expect("one for one");
        let third = submit(&mut pace, 1).expect("one for two");
        assert!(submit(&mut pace, 1).is_none(), "one for three");
        pace.answered(first);
        assert!(pace.may_send(), "one for two");
        let fourth = submit(&mut pace, 1).expect("two for two");
        assert!(submit(&mut pace, 1).is_none(), "one for four");
        for size in [second, third, fourth] {
            pace.answered(size);
        }
        assert!(pace.is_idle());
    }

    #[test]
    fn what_is_no_command_waits_for_none_alone_and_for_commands_until_they_are_answered() {
        let mut pace = Pace::default();
        let parts: Vec<_> = (0..UNDER_WAY_MAX).map(|_| submit(&mut pace, 0).expect("room")).collect();
        assert!(!pace.may_send() && !pace.has_room(), "so many sends and no more");
        for size in parts {
            pace.answered(size);
        }
        let command = submit(&mut pace, 1).expect("nothing is under way");
        assert!(submit(&mut pace, 0).is_none());
        pace.answered(command);
        assert!(submit(&mut pace, 0).is_some());
    }
}
