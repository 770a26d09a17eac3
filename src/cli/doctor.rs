//! `doctor`: checks each Redis of a store for what endangers locks, or an access file, and prints the findings for
//! people or as JSON.

use super::{
    calls::print,
    doctor_access,
    exit::{Failure, NO, OUTPUT, UNAVAILABLE},
    look::{ERROR, GOOD, HEADING, Look, WARNING},
    store::StoreArgs,
};
use crate::{
    node::{
        NodeUrl,
        doctor::{Finding, Severity, cluster, sentinels, worst},
    },
    store::quorum::nodes::{self, keys::Keys},
};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// What to check.
#[derive(Args, Clone, Debug)]
#[command(mut_arg("store", |store| store.required(false).required_unless_present("access")))]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    store: StoreArgs,

    /// Access file to check: rules for nobody, identities without a rule, tokens that expire soon. It needs no store
    #[arg(long, value_name = "FILE")]
    access: Option<PathBuf>,

    /// Print one JSON object for each Redis, and one for the access file
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    of: Of,
    severity: Severity,
    findings: &'a [Finding],
    /// Why the checks could not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// What the findings are about.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Of {
    Access(String),
    Store(String),
}

impl Report<'_> {
    fn print(&self) -> Result<(), Failure> {
        let line = serde_json::to_string(self);
        print(&line.map_err(|error| Failure::new(OUTPUT, format!("cannot encode the findings as JSON: {error}")))?)
    }
}

/// Checks what the arguments name, and prints the findings. Changes nothing.
pub(super) async fn doctor(args: DoctorArgs) -> Result<(), Failure> {
    let has_store = args.access.is_none() || args.store.is_given();
    if let Some(path) = &args.access {
        let findings = doctor_access::findings(path)?;
        let of = path.display().to_string();
        if args.json {
            Report { of: Of::Access(of), severity: worst(&findings), findings: &findings, error: None }.print()?;
        } else {
            show(&findings, has_store.then_some(&of))?;
        }
    }
    if has_store { check_store(&args).await } else { Ok(()) }
}

fn show(findings: &[Finding], heading: Option<&String>) -> Result<(), Failure> {
    let look = Look::of_stdout();
    if let Some(heading) = heading {
        print(&look.paint(HEADING, heading))?;
    }
    print(&text(findings, look))
}

async fn check_store(args: &DoctorArgs) -> Result<(), Failure> {
    let (urls, keys) = (args.store.urls()?, Keys::of(args.store.prefix()));
    let (mut worst_of_all, mut away) = (Severity::Ok, Vec::new());
    for url in &urls {
        let store = url.to_string();
        let (findings, why) = examine(url, &keys, urls.len() == 1).await;
        let severity = if why.is_some() { Severity::Error } else { worst(&findings) };
        worst_of_all = worst_of_all.max(severity);
        if args.json {
            Report { of: Of::Store(store), severity, findings: &findings, error: why.as_deref() }.print()?;
        } else if !findings.is_empty() {
            show(&findings, (urls.len() > 1 || args.access.is_some()).then_some(&store))?;
        }
        away.extend(why.map(|why| format!("cannot check {url}: {why}")));
    }
    match (away.is_empty(), worst_of_all) {
        (false, _) => Err(Failure::new(UNAVAILABLE, away.join("; "))),
        (true, Severity::Error) => Err(Failure::silent(NO)),
        (true, _) => Ok(()),
    }
}

/// The findings about a node, and why there are no more of them.
async fn examine(url: &NodeUrl, keys: &Keys, is_only: bool) -> (Vec<Finding>, Option<String>) {
    let (mut findings, found) = match url {
        NodeUrl::Redis(url) => (Vec::new(), Ok(url.clone())),
        NodeUrl::Sentinel(url) => sentinels::examine(url).await,
        NodeUrl::Cluster(url) => cluster::examine(url).await,
    };
    let examined = match found {
        Ok(url) => nodes::doctor::examine(&url, keys, is_only).await,
        Err(why) => Err(why),
    };
    match examined {
        Ok(more) => {
            findings.extend(more);
            (findings, None)
        }
        Err(why) => (findings, Some(why)),
    }
}

/// Where the text of a finding begins.
const INDENTATION: &str = "                      ";

/// A line for each finding, followed by what is at stake and what to change.
fn text(findings: &[Finding], look: Look) -> String {
    let mut lines = Vec::new();
    for Finding { check, severity, found, at_stake, change } in findings {
        let (word, style) = match severity {
            Severity::Ok => ("ok", GOOD),
            Severity::Warning => ("warning", WARNING),
            Severity::Error => ("ERROR", ERROR),
        };
        let line = look.wrap(&format!("{word:<8} {check:<12} {found}"), INDENTATION);
        lines.push(format!("{}{}", look.paint(style, word), line.strip_prefix(word).unwrap_or(&line)));
        for (label, text) in [("at stake", at_stake), ("change", change)] {
            if !text.is_empty() {
                lines.push(look.wrap(&format!("{INDENTATION}{label}: {text}"), INDENTATION));
            }
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_what_is_at_stake_below_the_finding() {
        let finding = |severity, at_stake: &str, change: &str| Finding {
            check: "eviction",
            severity,
            found: "it is so".to_owned(),
            at_stake: at_stake.to_owned(),
            change: change.to_owned(),
        };
        let findings = [finding(Severity::Ok, "", ""), finding(Severity::Error, "locks", "that")];
        let expected = [
            "ok       eviction     it is so",
            "ERROR    eviction     it is so",
            "                      at stake: locks",
            "                      change: that",
        ];
        assert_eq!(text(&findings, Look::PLAIN), expected.join("\n"));
        let narrow = text(&findings, Look::terminal(40));
        assert!(narrow.starts_with("\u{1b}[32mok\u{1b}[0m       eviction     it is so\n"), "{narrow:?}");
        let long = text(&[finding(Severity::Warning, &"many words ".repeat(9), "")], Look::terminal(40));
        assert!(long.lines().skip(1).all(|line| line.starts_with(INDENTATION)), "{long}");
    }
}
