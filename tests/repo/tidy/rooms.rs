//! The folders of `src/store/quorum`: each knows only those before it, and within a folder no file knows another one
//! that knows it.

use crate::code::{code_of, named_below};
use std::collections::{BTreeMap, BTreeSet};

const QUORUM: &str = "src/store/quorum/";

/// The folders from the bottom up. Each may use those before it, and none after it.
const ROOMS: [&str; 8] = ["paxos", "nodes", "rpc", "membership", "classic", "proposer", "config", "store"];

/// A file of a folder that uses a folder after it.
pub(crate) fn ladder(path: &str, text: &str) -> Vec<String> {
    let Some(inner) = path.strip_prefix(QUORUM).filter(|_| path.ends_with(".rs")) else { return Vec::new() };
    let Some((room, rest)) = inner.split_once('/') else {
        return if inner == "mod.rs" { Vec::new() } else { vec![format!("{path}: in none of {}", ROOMS.join(" <- "))] };
    };
    let rank = |name: &str| ROOMS.iter().position(|room| *room == name);
    let Some(own) = rank(room) else {
        return vec![format!("{path}: unknown folder; there are {}", ROOMS.join(" <- "))];
    };
    let code = code_of(text);
    // A path with `super` leaves the folder if it goes up further than the file is deep.
    let depth =
        rest.trim_end_matches("mod.rs").trim_end_matches(".rs").split('/').filter(|part| !part.is_empty()).count();
    let above = vec!["super"; depth + 1].join("::");
    let used = named_below(&code, "quorum").into_iter().chain(named_below(&code, &above));
    let first = |name: &str| name.split("::").next().unwrap_or(name).to_owned();
    let above_own = used.map(|name| first(&name)).filter(|name| rank(name).is_some_and(|used| used > own));
    let above_own: BTreeSet<String> = above_own.collect();
    above_own.into_iter().map(|used| format!("{path}: {room} must not use {used}")).collect()
}

/// The files of each folder that know each other, through whatever number of others.
pub(crate) fn cycles<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in files {
        let Some(inner) = path.strip_prefix(QUORUM).and_then(|inner| inner.strip_suffix(".rs")) else { continue };
        let parts: Vec<&str> = inner.split('/').collect();
        // Files that stand in a folder itself; tests may know all.
        let (room, module) = match parts[..] {
            [room, module] if module != "mod" => (room, module),
            [room, module, "mod"] => (room, module),
            _ => continue,
        };
        let code = code_of(text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text));
        let named = named_below(&code, "super").into_iter().map(|name| {
            let first = name.split("::").next().unwrap_or(&name).to_owned();
            format!("{room}/{first}")
        });
        uses.entry(format!("{room}/{module}")).or_default().extend(named);
    }
    let reaches_itself = |from: &String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(module) = next.pop() {
            for used in uses.get(&module).into_iter().flatten().filter(|used| *used != &module) {
                if used == from {
                    return true;
                }
                if seen.insert(used.clone()) {
                    next.push(used.clone());
                }
            }
        }
        false
    };
    let cyclic = uses.keys().filter(|module| reaches_itself(module));
    cyclic.map(|module| format!("{QUORUM}{module}: knows a file that knows it")).collect()
}

#[test]
fn a_folder_knows_those_before_it() {
    let refused = |path: &str, code: &str| assert_eq!(ladder(path, code).len(), 1, "{path}: {code}");
    let passes = |path: &str, code: &str| assert_eq!(ladder(path, code), [""; 0], "{code}");
    refused("src/store/quorum/paxos/a.rs", "use crate::store::quorum::nodes::client::NodeClient;");
    refused("src/store/quorum/paxos/a.rs", "use crate::{store::{Store, quorum::{rpc::messages::Frame, paxos::node}}};");
    refused("src/store/quorum/rpc/a.rs", "use super::super::store::QuorumStore;");
    refused("src/store/quorum/rpc/a/b.rs", "use super::super::super::store::QuorumStore;");
    refused("src/store/quorum/rpc/a/mod.rs", "use super::super::store::QuorumStore;");
    refused("src/store/quorum/a.rs", "");
    refused("src/store/quorum/rooms/a.rs", "");
    passes("src/store/quorum/rpc/a.rs", "use crate::store::quorum::paxos::ballot::Ballot; use super::store;");
    passes("src/store/quorum/store/a.rs", "use crate::store::quorum::{config::status, nodes::client::NodeClient};");
    passes("src/store/quorum/mod.rs", "pub mod store;");
    passes("src/store/memory/a.rs", "use crate::store::quorum::store;");
}

#[test]
fn no_file_knows_a_file_that_knows_it() {
    let found = |files: &[(&str, &str)]| {
        let paths: Vec<_> = files.iter().map(|(path, code)| (format!("{QUORUM}{path}.rs"), *code)).collect();
        cycles(paths.iter().map(|(path, code)| (path.as_str(), *code))).len()
    };
    assert_eq!(found(&[("rpc/a", "use super::b::B;"), ("rpc/b/mod", "use super::{c, d::D};"), ("rpc/c", "")]), 0);
    assert_eq!(
        found(&[("rpc/a", "use super::b::B;"), ("rpc/b/mod", "use super::{c::C};"), ("rpc/c", "use super::a;")]),
        3
    );
    assert_eq!(found(&[("rpc/a", "use super::b::B;"), ("nodes/b", "use super::a::A;")]), 0);
    assert_eq!(
        found(&[("rpc/a", "use super::b::B;"), ("rpc/b", "#[cfg(test)]\nmod tests {\nuse super::super::a;\n}")]),
        0
    );
}
