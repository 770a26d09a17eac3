//! Checks the Sentinels of a node: whether they name one primary, and would name another one in time if it failed.

use super::{Finding, Severity};
use crate::node::{
    RedisUrl, SentinelUrl,
    find::{
        Sentinels,
        vote::{SentinelAnswer, Vote, majority},
    },
};
use std::collections::BTreeSet;

/// With fewer, the loss of one leaves no majority.
const COUNT_MIN: usize = 3;

/// Asks the Sentinels of a URL. Beside the findings it says which Redis they name, or that they name none.
pub async fn examine(url: &SentinelUrl) -> (Vec<Finding>, Result<RedisUrl, String>) {
    let sentinels = Sentinels::new(url);
    let votes = sentinels.ask(|_| false).await;
    let addresses: Vec<&str> = sentinels.addresses().collect();
    let found = sentinels.primary(&votes);
    let mut findings = judge(&addresses, &votes);
    findings.push(match &found {
        Ok(primary) => Finding::ok("primary", format!("the node is {primary}")),
        Err(why) => Finding::error(
            "primary",
            why.clone(),
            "a server connects to no Redis: every call fails with UNAVAILABLE",
            "bring the Sentinels back, or correct their places and the name of the primary in the URL",
        ),
    });
    (findings, found)
}

/// The findings about Sentinels at these addresses that said this.
fn judge(addresses: &[&str], votes: &[Vote]) -> Vec<Finding> {
    let mut findings = vec![count(addresses.len())];
    findings.extend(addresses.iter().zip(votes).map(|(address, vote)| each(address, vote)));
    let answers: Vec<&SentinelAnswer> = votes.iter().flatten().filter_map(|vote| vote.as_ref().ok()).collect();
    findings.extend(agreement(&answers, votes));
    findings.extend(settings(addresses.len(), &answers));
    findings
}

fn count(count: usize) -> Finding {
    if count >= COUNT_MIN {
        return Finding::ok("sentinels", format!("the URL names {count}"));
    }
    Finding::warning(
        "sentinels",
        format!("the URL names {count}"),
        if count == 1 {
            "servers use no Redis without it, and trust whatever it says"
        } else {
            "if one of them fails, there is no majority, and servers use no Redis"
        },
        "run three or more, on machines that fail apart, and name all of them",
    )
}

fn each(address: &str, vote: &Vote) -> Finding {
    match vote {
        Some(Ok(answer)) => {
            let of = |field: &str| answer.fields.get(field).map_or("?", String::as_str);
            let found = format!(
                "{address} names {} (config-epoch {}, quorum {}, down-after {} ms, {} other Sentinels, {} replicas)",
                answer.address,
                answer.epoch,
                of("quorum"),
                of("down-after-milliseconds"),
                of("num-other-sentinels"),
                of("num-slaves"),
            );
            if of("flags").contains("down") {
                let at_stake = "servers that reach this Redis use it until the Sentinels name another one";
                let found = format!("{found}, and considers it down ({})", of("flags"));
                return Finding::warning("sentinel", found, at_stake, "look at that Redis, and at the log of Sentinel");
            }
            Finding::ok("sentinel", found)
        }
        Some(Err(why)) => Finding::warning(
            "sentinel",
            format!("{address} names no primary: {why}"),
            "it does not count towards a majority: a server that finds no majority for 2 s uses no Redis",
            "bring it back, or correct the URL",
        ),
        None => Finding::warning(
            "sentinel",
            format!("{address} names no primary"),
            "it does not count towards a majority",
            "ask again",
        ),
    }
}

fn agreement(answers: &[&SentinelAnswer], votes: &[Vote]) -> Option<Finding> {
    let addresses: BTreeSet<&str> = answers.iter().map(|answer| answer.address.as_str()).collect();
    if addresses.len() < 2 {
        return None;
    }
    let named = addresses.into_iter().collect::<Vec<_>>().join(", ");
    Some(Finding::warning(
        "agreement",
        format!("the Sentinels name different primaries: {named}"),
        if majority(votes).is_some() {
            "a majority agrees, so servers use its primary; without one of these there may be no majority"
        } else {
            "no majority agrees: servers use the one of the highest config-epoch if a majority answers"
        },
        "if this lasts for longer than a failover: check that the Sentinels reach each other, and read their logs; \
         SENTINEL RESET makes one learn the primary again",
    ))
}

/// What stands in the configuration of the Sentinels.
fn settings(listed: usize, answers: &[&SentinelAnswer]) -> Vec<Finding> {
    let number =
        |answer: &SentinelAnswer, field: &str| answer.fields.get(field).and_then(|text| text.parse::<usize>().ok());
    let all = |field| answers.iter().filter_map(|answer| number(answer, field)).collect::<BTreeSet<usize>>();
    let shown = |all: &BTreeSet<usize>| all.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let (quorums, others) = (all("quorum"), all("num-other-sentinels"));
    let known: BTreeSet<usize> = others.iter().map(|others| others + 1).collect();
    let mut findings = Vec::new();
    if let Some(most) = known.last().filter(|_| known.iter().any(|known| *known != listed)) {
        let at_stake = if *most > listed {
            "a majority of those in the URL may be a minority of all: cut off together, they name an old primary"
        } else {
            "those that the others do not know take no part in a failover, and still count here"
        };
        findings.push(Finding::warning(
            "known",
            format!("the URL names {listed} Sentinels, and they know of {}", shown(&known)),
            at_stake,
            "name all Sentinels in the URL, and only these; SENTINEL RESET on each, one by one, forgets those that are \
             gone for good",
        ));
    }
    if quorums.len() > 1 {
        findings.push(Finding::warning(
            "quorum",
            format!("their quorums differ: {}", shown(&quorums)),
            "the Sentinel that notices a failure first decides when a failover begins",
            "SENTINEL SET <name> quorum, the same on each",
        ));
    }
    let (least, most) = (quorums.first().copied().unwrap_or(2), quorums.last().copied().unwrap_or(2));
    if let Some(fewest) = known.first().filter(|fewest| most > **fewest) {
        findings.push(Finding::error(
            "quorum",
            format!("the quorum is {most}, and there are {fewest} Sentinels"),
            "they never begin a failover: a primary that fails stays away",
            "SENTINEL SET <name> quorum: a majority of them",
        ));
    } else if least == 1 && listed > 1 {
        findings.push(Finding::warning(
            "quorum",
            "the quorum is 1",
            "a failover begins when a single Sentinel does not reach the primary, and each one forgets the grants that \
             were not replicated",
            "SENTINEL SET <name> quorum: a majority of them",
        ));
    }
    if all("num-slaves").first() == Some(&0) {
        findings.push(Finding::warning(
            "failover",
            "there is no replica",
            "if the primary fails, there is none to promote",
            "attach a replica, or name the Redis itself in the URL",
        ));
    }
    if findings.iter().all(|finding| finding.severity == Severity::Ok) && !quorums.is_empty() {
        findings.push(Finding::ok("quorum", format!("{} of {}", shown(&quorums), shown(&known))));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(address: &str, [quorum, others, replicas]: [&str; 3]) -> Vote {
        let fields =
            [("quorum", quorum), ("num-other-sentinels", others), ("num-slaves", replicas), ("flags", "master")];
        let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Some(Ok(SentinelAnswer { address: address.to_owned(), epoch: 3, fields }))
    }

    fn found(votes: &[Vote]) -> Vec<String> {
        let addresses = ["s1", "s2", "s3", "s4"];
        let findings = judge(&addresses[..votes.len()], votes).into_iter().filter(|it| it.severity > Severity::Ok);
        findings.map(|it| format!("{:?} {} {}", it.severity, it.check, it.found)).collect()
    }

    #[test]
    fn what_endangers_a_failover_is_found() {
        let well = || answered("a:1", ["2", "2", "1"]);
        assert_eq!(found(&[well(), well(), well()]), [""; 0]);
        let of = |settings| [answered("a:1", settings), answered("a:1", settings), answered("a:1", settings)];
        for (votes, says) in [
            (
                vec![answered("a:1", ["2", "1", "1"]), answered("a:1", ["2", "1", "1"])],
                "Warning sentinels the URL names 2",
            ),
            (
                vec![well(), well(), Some(Err("it is away".to_owned()))],
                "Warning sentinel s3 names no primary: it is away",
            ),
            (
                vec![well(), answered("b:1", ["2", "2", "1"]), well()],
                "Warning agreement the Sentinels name different primaries: a:1, b:1",
            ),
            (of(["2", "4", "1"]).into(), "Warning known the URL names 3 Sentinels, and they know of 5"),
            (of(["1", "2", "1"]).into(), "Warning quorum the quorum is 1"),
            (of(["4", "2", "1"]).into(), "Error quorum the quorum is 4, and there are 3 Sentinels"),
            (vec![well(), answered("a:1", ["3", "2", "1"]), well()], "Warning quorum their quorums differ: 2, 3"),
            (of(["2", "2", "0"]).into(), "Warning failover there is no replica"),
        ] {
            assert_eq!(found(&votes), [says]);
        }
        let mut down = answered("a:1", ["2", "2", "1"]);
        if let Some(Ok(answer)) = &mut down {
            answer.fields.insert("flags".to_owned(), "master,s_down".to_owned());
        }
        assert!(found(&[well(), down, well()])[0].contains("considers it down (master,s_down)"));
    }
}
