//! When two states are equal: nodes are alike, and what has no effect any more is left out.

use super::{
    node::Redis,
    server::{Leads, Server},
    world::{State, stamp_of},
};
use std::{
    fmt::Write,
    hash::{DefaultHasher, Hash, Hasher},
};

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        if self.exact { format!("{self:?}").hash(hasher) } else { self.key().hash(hasher) }
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        if self.exact { format!("{self:?}") == format!("{other:?}") } else { self.key() == other.key() }
    }
}

/// What of a server concerns one node: the text, and the nodes that have confirmed it to that node.
type Part = (String, Vec<usize>);

impl State {
    /// Nodes are put in the order of what concerns them. (Of nodes that are equal in this, one order is taken; that may
    /// count a state twice, and misses none.)
    pub(crate) fn key(&self) -> String {
        let mut texts: Vec<String> = self.nodes.iter().map(|it| format!("{:016x}", hash(it))).collect();
        let mut rest = format!("{:?} {} {:?}", self.committed, self.losses_left, self.breach);
        let _ = write!(rest, " {:?}", self.known);
        for rebuild in &self.rebuilds {
            rest.push_str(&rebuild.parts(&mut texts));
        }
        let mut confirmed = vec![vec![]; self.nodes.len()];
        for (server, is) in self.servers.iter().enumerate() {
            let (parts, common) = self.parts(server, is);
            rest.push_str(&common);
            for (node, (text, by)) in parts.into_iter().enumerate() {
                let _ = write!(texts[node], "|{text} {}", by.len());
                confirmed[node].push(by);
            }
        }
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by(|one, other| texts[*one].cmp(&texts[*other]));
        for node in &order {
            rest.push_str(&texts[*node]);
            for by in &confirmed[*node] {
                let mut places: Vec<_> = by.iter().map(|by| order.iter().position(|node| node == by)).collect();
                places.sort_unstable();
                let _ = write!(rest, "{places:?}");
            }
        }
        rest
    }

    /// What of a server concerns each node, and what is common.
    fn parts(&self, server: usize, is: &Server) -> (Vec<Part>, String) {
        let mut parts: Vec<Part> = vec![Part::default(); self.nodes.len()];
        let members = self.lists[server];
        members.iter().for_each(|node| parts[*node].0.push('m'));
        let common = match is {
            Server::Candidate(candidate, ..) => {
                let text = format!("{candidate:?}");
                let round = &text[text.find(", round: ").expect("a round") + 2..];
                for (local, first) in items(list(&text, "first: [")).into_iter().enumerate() {
                    parts[members[local]].0.push_str(first);
                }
                let common = round.chars().take(12).collect::<String>();
                if round.starts_with("round: Second") {
                    for (place, local) in items(list(round, "Second([")).into_iter().enumerate() {
                        let _ = write!(parts[members[index(local)]].0, "again {place}");
                    }
                }
                common
            }
            Server::Leads(leads) => self.leads(leads, members, &self.deaf[server], &mut parts),
            Server::Over => "over".into(),
        };
        for sent in self.sent.iter().filter(|sent| sent.server == server) {
            if let Some(stamp) = stamp_of(&sent.request) {
                let _ = write!(parts[sent.node].0, "{:?} {stamp}", sent.purpose);
            }
        }
        (parts, common)
    }

    fn leads(
        &self,
        Leads { leader, histories, connected }: &Leads,
        members: &[usize],
        deaf: &[bool],
        parts: &mut [Part],
    ) -> String {
        if members.iter().all(|node| deaf[*node]) {
            return "over".into();
        }
        let text = format!("{leader:?}");
        let base = &text[text.find("base: ").expect("a base")..text.find(", ring: ").expect("a ring")];
        let acknowledged = items(list(&text, "acknowledged: ["));
        for (local, standing) in items(list(&text, "progress: [")).into_iter().enumerate() {
            let node = members[local];
            let (part, confirmed) = &mut parts[node];
            part.push_str(acknowledged[local]);
            if deaf[node] {
                continue;
            }
            part.push(if connected[local] == self.nodes[node].incarnation { '=' } else { '~' });
            let Some((before, by)) = standing.split_once("asked: {") else {
                part.push_str(standing);
                continue;
            };
            // It has asked all others.
            let (by, after) = by[by.find("confirmed: {").expect("a set") + 12..].split_once('}').expect("a set");
            confirmed.extend(by.split(", ").filter(|it| !it.is_empty()).map(|local| members[index(local)]));
            part.push_str(before);
            part.push_str(after);
        }
        format!("{base} {} {:?}", histories.len(), histories.last())
    }
}

fn hash(node: &Redis) -> u64 {
    let mut hasher = DefaultHasher::new();
    node.hash(&mut hasher);
    hasher.finish()
}

fn index(text: &str) -> usize {
    text.trim().parse().expect("a number")
}

/// The text of a list after its opening bracket.
fn list<'a>(text: &'a str, opening: &str) -> &'a str {
    &text[text.find(opening).expect("a list") + opening.len()..]
}

/// The items of a list, up to its closing bracket.
fn items(text: &str) -> Vec<&str> {
    let (mut items, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, it) in text.bytes().enumerate() {
        match it {
            b'[' | b'{' | b'(' => depth += 1,
            b']' | b'}' | b')' if depth == 0 => {
                if begin < at {
                    items.push(text[begin..at].trim());
                }
                break;
            }
            b']' | b'}' | b')' => depth -= 1,
            b',' if depth == 0 => {
                items.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    items
}
