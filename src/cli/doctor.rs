//! `doctor`: checks a Redis for what endangers locks, and prints the findings for people or as JSON.

use super::{
    calls::print,
    exit::{COMMAND_LINE, CONFIG, Failure, NO, OUTPUT, UNAVAILABLE},
    look::{ERROR, GOOD, Look, WARNING},
};
use crate::{
    node::{
        RedisUrl, TlsFile, TlsFileProblem, TlsFiles,
        doctor::{Finding, Severity, worst},
    },
    store::doctor::examine,
};
use clap::Args;
use serde::Serialize;
use std::{ffi::OsString, path::PathBuf};

/// The Redis to check.
#[derive(Args, Clone, Debug)]
pub(crate) struct DoctorArgs {
    // Not parsed by clap, whose error message would contain the password of an invalid URL.
    /// URL of the Redis, as for serve: redis://[user:password@]host:port[/db], or rediss:// for TLS
    #[arg(long, value_name = "URL", env = "FENCEPOST_STORE", hide_env_values = true)]
    store: String,

    /// PEM file with the authorities of a rediss:// store, in place of the machine's roots
    #[arg(long, value_name = "FILE", env = "FENCEPOST_STORE_CA", value_parser = clap::value_parser!(OsString))]
    store_ca: Option<OsString>,

    /// PEM file with the client certificate for a rediss:// store that asks for one
    #[arg(long, value_name = "FILE", env = "FENCEPOST_STORE_CERT", value_parser = clap::value_parser!(OsString))]
    store_cert: Option<OsString>,

    /// PEM file with the private key of the client certificate
    #[arg(long, value_name = "FILE", env = "FENCEPOST_STORE_KEY", value_parser = clap::value_parser!(OsString))]
    store_key: Option<OsString>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    store: String,
    severity: Severity,
    findings: &'a [Finding],
    /// Why the checks could not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

impl Report<'_> {
    fn print(&self) -> Result<(), Failure> {
        let line = serde_json::to_string(self);
        print(&line.map_err(|error| Failure::new(OUTPUT, format!("cannot encode the findings as JSON: {error}")))?)
    }
}

impl DoctorArgs {
    /// The URL with its files for TLS, which are checked.
    fn url(&self) -> Result<RedisUrl, Failure> {
        let url = RedisUrl::parse(&self.store).map_err(|why| Failure::new(COMMAND_LINE, format!("--store: {why}")))?;
        let file = |given: &Option<OsString>| given.as_ref().filter(|path| !path.is_empty()).map(PathBuf::from);
        let files = TlsFiles { ca: file(&self.store_ca), cert: file(&self.store_cert), key: file(&self.store_key) };
        if !url.tls() && !files.is_empty() {
            let rule = "--store-ca, --store-cert and --store-key need a store with TLS: --store rediss://…";
            return Err(Failure::new(CONFIG, rule));
        }
        url.with_tls(files).map_err(|TlsFileProblem { file, path, why }| {
            let flag = match file {
                TlsFile::Ca => "--store-ca",
                TlsFile::Cert => "--store-cert",
                TlsFile::Key => "--store-key",
            };
            Failure::new(CONFIG, format!("{flag} = {path:?}: {why}"))
        })
    }
}

/// Checks the Redis and prints the findings. Changes nothing.
pub(super) async fn doctor(args: DoctorArgs) -> Result<(), Failure> {
    let url = args.url()?;
    let store = url.to_string();
    let findings = match examine(&url).await {
        Ok(findings) => findings,
        Err(why) => {
            if args.json {
                Report { store, severity: Severity::Error, findings: &[], error: Some(&why) }.print()?;
            }
            return Err(Failure::new(UNAVAILABLE, format!("cannot check {url}: {why}")));
        }
    };
    let severity = worst(&findings);
    if args.json {
        Report { store, severity, findings: &findings, error: None }.print()?;
    } else {
        print(&text(&findings, Look::of_stdout()))?;
    }
    if severity == Severity::Error { Err(Failure::silent(NO)) } else { Ok(()) }
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
