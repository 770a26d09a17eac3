//! What one member says of its cluster: `CLUSTER INFO`, `CLUSTER NODES` and `INFO replication`.

use super::SLOT;

/// One line of `CLUSTER NODES`.
struct Line {
    id: String,
    flags: Vec<String>,
    epoch: u64,
    is_connected: bool,
    has_slot: bool,
}

/// What a member says.
pub(super) struct View {
    is_ok: bool,
    /// Of a replica: whether it follows its primary.
    follows: bool,
    lines: Vec<Line>,
    own: usize,
}

impl Line {
    fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [id, _, flags, _, _, _, epoch, link, slots @ ..] = &words[..] else { return None };
        let has = |range: &&str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            matches!((first.parse(), last.parse()), (Ok(first), Ok(last)) if (first..=last).contains(&SLOT))
        };
        Some(Self {
            id: (*id).to_owned(),
            flags: flags.split(',').map(str::to_owned).collect(),
            epoch: epoch.parse().ok()?,
            is_connected: *link == "connected",
            has_slot: slots.iter().any(has),
        })
    }

    fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|it| it == flag)
    }

    /// Whether it is known, and taken for alive.
    fn is_well(&self) -> bool {
        self.is_connected && !["fail", "fail?", "handshake", "noaddr"].iter().any(|flag| self.is(flag))
    }
}

impl View {
    /// None if these are not the answers of a member.
    pub(super) fn read(info: &str, nodes: &str, replication: &str) -> Option<Self> {
        let lines: Vec<Line> = nodes.lines().map(Line::read).collect::<Option<_>>()?;
        let own = lines.iter().position(|line| line.is("myself"))?;
        let follows = replication.contains("master_link_status:up");
        Some(Self { is_ok: info.contains("cluster_state:ok"), follows, lines, own })
    }

    fn own(&self) -> &Line {
        &self.lines[self.own]
    }

    pub(super) fn is_primary(&self) -> bool {
        self.own().is("master")
    }

    /// The config epoch with which it claims the slot, if it does.
    pub(super) fn claim(&self) -> Option<u64> {
        (self.is_primary() && self.own().has_slot).then(|| self.own().epoch)
    }

    /// Whether it has the slot, and answers clients.
    pub(super) fn serves(&self) -> bool {
        self.is_ok && self.claim().is_some()
    }

    /// Whether it knows this number of members, itself included.
    pub(super) fn knows(&self, members: usize) -> bool {
        self.lines.len() == members && self.lines.iter().all(Line::is_well)
    }

    /// The id of the member that it names as the primary of the slot.
    pub(super) fn named(&self) -> Option<&str> {
        self.lines.iter().find(|line| line.has_slot).map(|line| line.id.as_str())
    }

    /// Whether it knows all, takes the cluster for ok, and follows if it is a replica.
    pub(super) fn is_whole(&self, members: usize) -> bool {
        self.is_ok && self.knows(members) && (self.is_primary() || self.follows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &str = "cluster_state:ok\r\ncluster_slots_assigned:16384\r\n";

    /// What a primary without the slot says of itself, of its primary of the slot, and of a replica.
    fn nodes(flags: &str, link: &str) -> String {
        format!(
            "aa 127.0.0.1:1@2 myself,master - 0 0 2 connected 0-5460\nbb 127.0.0.1:3@4 {flags} - 0 0 7 {link} \
             5461-10922 [7963->-aa]\ncc 127.0.0.1:5@6 slave bb 0 0 7 connected\n"
        )
    }

    #[test]
    fn a_member_sees_the_cluster_whole_or_not() {
        let of = |info: &str, flags: &str, link: &str| View::read(info, &nodes(flags, link), "role:master").unwrap();
        let whole = of(OK, "master", "connected");
        assert!(whole.is_whole(3) && !whole.is_whole(4));
        assert!(!of("cluster_state:fail", "master", "connected").is_whole(3));
        for (flags, link) in [("master,fail", "connected"), ("master,fail?", "connected"), ("master", "disconnected")] {
            assert!(!of(OK, flags, link).is_whole(3), "{flags} {link}");
        }
        assert_eq!((whole.named(), whole.claim(), whole.is_primary(), whole.serves()), (Some("bb"), None, true, false));
        assert!(View::read(OK, "nonsense", "").is_none() && View::read(OK, "", "").is_none());
    }

    #[test]
    fn who_has_the_slot_serves_it_if_its_cluster_is_ok() {
        let read = |info: &str, slots: &str| {
            View::read(info, &format!("aa 127.0.0.1:1@2 myself,master - 0 0 9 connected {slots}"), "").unwrap()
        };
        assert_eq!((read(OK, "7963").claim(), read(OK, "0-7962 7964").claim()), (Some(9), None));
        // It imports the slot, and does not have it yet.
        assert_eq!(read(OK, "0-5460 [7963-<-bb]").claim(), None);
        assert!(read(OK, "5461-10922").serves() && !read("cluster_state:fail", "5461-10922").serves());
        // A replica has no slots in its own line.
        let replica = |link: &str| {
            let nodes = "bb 127.0.0.1:1@2 master - 0 0 9 connected 5461-10922\n\
                         aa 127.0.0.1:3@4 myself,slave bb 0 0 9 connected";
            View::read(OK, nodes, &format!("role:slave\r\nmaster_link_status:{link}\r\n")).unwrap()
        };
        assert!(replica("up").is_whole(2) && !replica("down").is_whole(2));
        assert!(!replica("up").serves());
    }
}
