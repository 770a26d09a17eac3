//! What one member of a Redis Cluster says of the cluster: `CLUSTER INFO`, `CLUSTER NODES` and `CLUSTER SLOTS`.
//!
//! `CLUSTER SLOTS` has the endpoints that clients are to use (`CLUSTER SHARDS` has the same ones, and some services do
//! not know it), and `CLUSTER NODES` the config epochs, which neither of these has.

use crate::node::find::address_of;
use deadpool_redis::redis::{self, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The most members of a cluster. Redis recommends at most 1,000.
const MEMBERS_MAX: usize = 4_096;

/// What a member says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::node) struct View {
    /// The member that says it.
    pub(in crate::node) id: String,
    /// The primary of the slot.
    pub(in crate::node) owner: Owner,
    /// All primaries that have slots, which vote in elections, and where they are, if that is told.
    pub(in crate::node) voters: BTreeMap<String, Option<String>>,
    /// All members that it knows.
    pub(in crate::node) members: BTreeSet<String>,
}

/// The primary of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::node) struct Owner {
    pub(in crate::node) id: String,
    /// Where it is: `host:port`.
    pub(in crate::node) address: String,
    /// The number of the configuration that gave it the slot. Of two members that claim a slot, the one with the higher
    /// number has it.
    pub(in crate::node) epoch: u64,
    /// Where its replicas are.
    pub(in crate::node) replicas: Vec<String>,
    /// The member to which it moves the slot, if it does and says so: only itself does.
    pub(in crate::node) moves_to: Option<String>,
}

/// One line of `CLUSTER NODES`.
struct Member<'a> {
    id: &'a str,
    flags: Vec<&'a str>,
    epoch: u64,
    slots: Vec<&'a str>,
}

impl<'a> Member<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (id, _, flags) = (words.next()?, words.next()?, words.next()?.split(',').collect());
        // The primary of a replica, when it was pinged and has answered.
        let epoch = words.by_ref().nth(3)?.parse().ok()?;
        let _link = words.next()?;
        Some(Self { id, flags, epoch, slots: words.collect() })
    }

    fn is(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    fn has(&self, slot: u16) -> bool {
        self.slots.iter().any(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            matches!((first.parse(), last.parse()), (Ok(first), Ok(last)) if (first..=last).contains(&slot))
        })
    }

    /// Where it moves the slot.
    fn moves(&self, slot: u16) -> Option<&'a str> {
        let begin = format!("[{slot}->-");
        self.slots.iter().find_map(|it| it.strip_prefix(begin.as_str())?.strip_suffix(']'))
    }
}

/// The view that these three answers make, of a member that was asked at this host. The error says why it names no
/// primary of the slot.
pub(super) fn read(slot: u16, host: &str, [info, members, slots]: &[Value; 3]) -> Result<View, String> {
    const STRANGE: &str = "it does not answer like a member of a Redis Cluster";
    let text = |value: &Value| redis::from_redis_value_ref::<String>(value).map_err(|_| STRANGE.to_owned());
    let (info, members) = (text(info)?, text(members)?);
    let state = info.lines().find_map(|line| line.trim_end().strip_prefix("cluster_state:"));
    if state != Some("ok") {
        return Err(format!(
            "its cluster_state is {}: it does not reach most primaries, or slots have none",
            state.unwrap_or("not told")
        ));
    }
    let members: Option<Vec<Member>> = members.lines().take(MEMBERS_MAX).map(Member::read).collect();
    let members = members.ok_or(STRANGE)?;
    let id = members.iter().find(|it| it.is("myself")).ok_or(STRANGE)?.id.to_owned();
    let ranges = read_slots(slots, host).ok_or(STRANGE)?;
    let range = ranges.iter().find(|it| it.first <= slot && slot <= it.last);
    let Some(Range { primary, replicas, .. }) = range else {
        return Err(format!("no member has slot {slot}"));
    };
    // The two were not answered at the same moment.
    let Some(owner) = members.iter().find(|it| it.id == primary.id && it.has(slot)) else {
        return Err(format!("slot {slot} is just moving"));
    };
    if owner.is("fail") {
        return Err(format!("the primary of slot {slot} has failed, and no replica was promoted yet"));
    }
    let Some(address) = primary.address.clone() else {
        return Err(format!(
            "it does not know where the primary of slot {slot} is: set cluster-announce-hostname on each member, or \
             cluster-preferred-endpoint-type ip"
        ));
    };
    let moves_to = owner.moves(slot).map(str::to_owned);
    let replicas = replicas.iter().filter_map(|it| it.address.clone()).collect();
    let owner = Owner { id: owner.id.to_owned(), address, epoch: owner.epoch, replicas, moves_to };
    let voters = ranges.into_iter().map(|it| (it.primary.id, it.primary.address)).collect();
    Ok(View { id, owner, voters, members: members.iter().map(|it| it.id.to_owned()).collect() })
}

struct Range {
    first: u16,
    last: u16,
    primary: Endpoint,
    replicas: Vec<Endpoint>,
}

struct Endpoint {
    id: String,
    address: Option<String>,
}

fn read_slots(slots: &Value, host: &str) -> Option<Vec<Range>> {
    let Value::Array(slots) = slots else { return None };
    let range = |range: &Value| {
        let Value::Array(parts) = range else { return None };
        let [first, last, primary, replicas @ ..] = parts.as_slice() else { return None };
        let replicas: Option<Vec<Endpoint>> = replicas.iter().map(|it| read_endpoint(it, host)).collect();
        Some(Range {
            first: redis::from_redis_value_ref(first).ok()?,
            last: redis::from_redis_value_ref(last).ok()?,
            primary: read_endpoint(primary, host)?,
            replicas: replicas?,
        })
    };
    slots.iter().map(range).collect()
}

/// One endpoint. No host, or an empty one, means the host that was asked; a `?` means none that is known.
fn read_endpoint(endpoint: &Value, asked: &str) -> Option<Endpoint> {
    let Value::Array(parts) = endpoint else { return None };
    let [host, port, id, ..] = parts.as_slice() else { return None };
    let host: Option<String> = redis::from_redis_value_ref(host).ok()?;
    let (port, id): (u16, String) = (redis::from_redis_value_ref(port).ok()?, redis::from_redis_value_ref(id).ok()?);
    let host = host.filter(|host| !host.is_empty()).unwrap_or_else(|| asked.to_owned());
    let address = address_of(&host, port)?;
    Some(Endpoint { id, address: (host != "?").then_some(address) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "\
        aa 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-5460\n\
        bb 10.0.0.2:6379@16379,b.example master - 0 17 9 connected 5461-7000 7963 8000-10922 [7963->-aa]\n\
        cc 10.0.0.3:6379@16379 master,fail? - 0 17 3 connected 7001-7962 7964-7999 10923-16383\n\
        dd 10.0.0.4:6379@16379 slave bb 0 17 9 connected\n";

    fn texts(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn endpoint(host: Value, id: &str) -> Value {
        Value::Array(vec![host, Value::Int(6379), texts(id), Value::Array(Vec::new())])
    }

    fn range(first: i64, last: i64, all: Vec<Value>) -> Value {
        Value::Array([vec![Value::Int(first), Value::Int(last)], all].concat())
    }

    fn slots(host: Value) -> Value {
        let replica = endpoint(texts("10.0.0.4"), "dd");
        Value::Array(vec![
            range(0, 5460, vec![endpoint(texts("10.0.0.1"), "aa")]),
            range(5461, 7000, vec![endpoint(host.clone(), "bb"), replica.clone()]),
            range(7963, 7963, vec![endpoint(host, "bb"), replica]),
            range(10923, 16383, vec![endpoint(texts("10.0.0.3"), "cc")]),
        ])
    }

    fn seen(info: &str, nodes: &str, slots: Value) -> Result<View, String> {
        read(7_963, "asked", &[texts(info), texts(nodes), slots])
    }

    #[test]
    fn a_view_has_the_primary_of_the_slot_and_those_who_vote() {
        let view = seen("cluster_state:ok\r\n", NODES, slots(texts("B.example"))).unwrap();
        assert_eq!((view.id.as_str(), view.members.len()), ("aa", 4));
        assert_eq!(view.voters.keys().collect::<Vec<_>>(), ["aa", "bb", "cc"]);
        assert_eq!(
            view.owner,
            Owner {
                id: "bb".to_owned(),
                address: "b.example:6379".to_owned(),
                epoch: 9,
                replicas: vec!["10.0.0.4:6379".to_owned()],
                moves_to: Some("aa".to_owned()),
            }
        );
        for (host, address) in [(Value::Nil, "asked:6379"), (texts(""), "asked:6379"), (texts("::1"), "[::1]:6379")] {
            assert_eq!(seen("cluster_state:ok", NODES, slots(host)).unwrap().owner.address, address);
        }
    }

    #[test]
    fn a_view_that_names_no_primary_says_why() {
        let ok = || slots(texts("b"));
        for (info, nodes, slots, says) in [
            ("cluster_state:fail", NODES.to_owned(), ok(), "cluster_state is fail"),
            ("", NODES.to_owned(), ok(), "cluster_state is not told"),
            ("cluster_state:ok", NODES.replace(" 7963", ""), ok(), "just moving"),
            ("cluster_state:ok", NODES.replace("example master", "example master,fail"), ok(), "has failed"),
            ("cluster_state:ok", NODES.to_owned(), slots(texts("?")), "cluster-announce-hostname"),
            ("cluster_state:ok", NODES.to_owned(), Value::Array(Vec::new()), "no member has slot 7963"),
            ("cluster_state:ok", NODES.replace("myself,", ""), ok(), "does not answer like"),
            ("cluster_state:ok", "aa".to_owned(), ok(), "does not answer like"),
            ("cluster_state:ok", NODES.to_owned(), Value::Nil, "does not answer like"),
            ("cluster_state:ok", NODES.to_owned(), slots(texts(&"h".repeat(256))), "does not answer like"),
        ] {
            let said = seen(info, &nodes, slots).unwrap_err();
            assert!(said.contains(says), "{said}");
        }
    }
}
