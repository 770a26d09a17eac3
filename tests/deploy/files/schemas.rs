//! Files that a schema or a parser of their program describes: compose, Envoy, Prometheus, GitHub.

use crate::tools::{ROOT, fails, files_in, passes, read, spoilt, system, tool};
use std::{path::Path, process::Command};

fn schema(name: &str, file: &Path) -> Command {
    let mut command = tool("check-jsonschema");
    command.args(["--builtin-schema", name]).arg(file);
    command
}

fn envoy(file: &Path) -> Command {
    let mut command = tool("python");
    command.arg("tests/deploy/parse_envoy.py").arg(file);
    command
}

fn promtool(arguments: &[&str]) -> Command {
    let mut command = system(Command::new("promtool"));
    command.args(arguments);
    command
}

fn in_repository(path: &str) -> std::path::PathBuf {
    Path::new(ROOT).join(path)
}

#[test]
fn compose_files_follow_the_compose_specification() {
    let files: Vec<_> = files_in("deploy/compose").into_iter().filter(|path| path.ends_with(".yaml")).collect();
    assert_eq!(files.len(), 3);
    for file in &files {
        passes(&mut schema("vendor.compose-spec", &in_repository(file)));
    }
    let wrong = spoilt(&read(&files[0]), "stop_grace_period:", "stop_grace:", ".yaml");
    fails(&mut schema("vendor.compose-spec", wrong.path()), "stop_grace");
}

#[test]
fn the_envoy_configuration_has_the_types_of_envoy() {
    passes(&mut envoy(&in_repository("deploy/proxies/envoy.yaml")));
    let text = read("deploy/proxies/envoy.yaml");
    // In a message, and in one that is packed into another.
    for (from, to) in [("lb_policy:", "policy:"), ("stream_idle_timeout:", "idle:")] {
        fails(&mut envoy(spoilt(&text, from, to, ".yaml").path()), "has no field named");
    }
}

#[test]
fn prometheus_accepts_its_configuration_and_the_alerts() {
    for file in files_in("deploy/prometheus").iter().filter(|path| path.contains("prometheus/prometheus")) {
        passes(&mut promtool(&["check", "config", file]));
    }
    let wrong = spoilt(&read("deploy/prometheus/prometheus.yml"), "static_configs:", "static:", ".yml");
    fails(&mut promtool(&["check", "config", wrong.path().to_str().unwrap()]), "static");
}

/// Whoever is woken by an alert finds what to do.
#[test]
fn each_alert_links_to_its_section() {
    let (alerts, page) = (read("deploy/prometheus/alerts.yml"), read("docs/operating/monitoring.md"));
    let mut alerts: Vec<_> = alerts.split("- alert: ").skip(1).collect();
    assert!(alerts.len() > 20, "{}", alerts.len());
    for alert in &mut alerts {
        let name = alert.lines().next().unwrap();
        let link = alert.lines().find_map(|line| line.trim().strip_prefix("runbook_url: ")).unwrap_or_default();
        let (file, anchor) = link.split_once('#').unwrap_or_else(|| panic!("{name} has no runbook"));
        assert!(file.starts_with("https://") && file.ends_with("/docs/operating/monitoring.md"), "{link}");
        // GitHub makes the anchor of a heading in this way.
        let section = page.split("\n### ").find(|section| section.lines().next() == Some(name));
        assert_eq!(anchor, name.to_lowercase());
        let section = section.unwrap_or_else(|| panic!("docs/operating/monitoring.md has no section {name}"));
        let severity = if alert.contains("severity: page") { "**Page**" } else { "*Ticket*" };
        assert!(section.lines().nth(2).unwrap().starts_with(severity), "{name} {severity} {section}");
    }
    let sections = page.lines().filter(|line| line.starts_with("### Fencepost")).count();
    assert_eq!(sections, alerts.len(), "a section without an alert");
}

#[test]
fn alerts_fire_when_they_should_and_only_then() {
    passes(&mut promtool(&["test", "rules", "deploy/prometheus/alerts_test.yml"]));
    let (alerts, tests) = (read("deploy/prometheus/alerts.yml"), read("deploy/prometheus/alerts_test.yml"));
    for name in alert_names(&alerts) {
        let fires = format!("        alertname: {name}\n        exp_alerts:\n");
        let silent = format!("        alertname: {name}\n      - ");
        assert!(tests.contains(&fires), "no test in which {name} fires");
        assert!(tests.contains(&silent), "no test in which {name} is silent");
    }
}

fn alert_names(alerts: &str) -> Vec<&str> {
    let names: Vec<_> = alerts.lines().filter_map(|line| line.trim_start().strip_prefix("- alert: ")).collect();
    assert!(names.len() > 10, "{names:?}");
    names
}

#[test]
fn workflows_are_valid_and_call_only_make() {
    let makefile = read("Makefile");
    for path in files_in(".github/workflows") {
        passes(&mut schema("vendor.github-workflows", &in_repository(&path)));
        passes(tool("actionlint").arg(&path));
        for line in read(&path).lines().map(|line| line.trim_start().trim_start_matches("- ")) {
            if let Some(workflow) = line.strip_prefix("uses: ./") {
                assert!(in_repository(workflow).is_file(), "{path}: {line}");
            } else if let Some(action) = line.strip_prefix("uses: ") {
                let (_, commit) = action.split_once('@').unwrap();
                let (commit, version) = commit.split_once(" # v").unwrap_or_else(|| panic!("{path}: {line}"));
                let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
                assert!(is_commit && version.starts_with(|first: char| first.is_ascii_digit()), "{path}: {line}");
            }
            assert!(!line.starts_with("run: ") || line.starts_with("run: make "), "{path}: {line}");
            for target in targets(line) {
                assert!(makefile.contains(&format!("\n{target}:")), "{path}: no target {target} in the Makefile");
            }
        }
    }
    let test = read(".github/workflows/test.yml");
    fails(tool("actionlint").arg(spoilt(&test, "github.ref", "github.reff", ".yml").path()), "reff");
}

/// The targets of the Makefile that a line of a workflow calls, or hands to `make.yml`.
fn targets(line: &str) -> Vec<&str> {
    let named = line.strip_prefix("run: make ").or_else(|| line.strip_prefix("target: ")).unwrap_or_default();
    // Those that an expression stands for are in other lines.
    let named = if named.contains("${{") { "" } else { named };
    named.split([' ', ',', '[', ']']).filter(|target| !target.is_empty()).collect()
}

/// Its jobs run side by side, and nothing else than `make test` runs one after the other.
#[test]
fn the_test_workflow_has_all_checks_of_make_test() {
    let (makefile, workflow) = (read("Makefile"), read(".github/workflows/test.yml"));
    let after = |text: &str| makefile.split_once(text).unwrap().1.lines().next().unwrap().to_owned();
    let clients = after("\nCLIENT_TESTS := $(addprefix test-,").trim_end_matches(')').replace(' ', " test-");
    let checks = after("\nCHECKS := ").replace("test-clients", &format!("test-{clients}"));
    let mut checks: Vec<_> = checks.split_whitespace().collect();
    // These prepare others.
    checks.extend(["setup", "drivers"]);
    let mut called: Vec<_> = workflow.lines().flat_map(|line| targets(line.trim_start())).collect();
    checks.sort_unstable();
    called.sort_unstable();
    assert_eq!(called, checks);
}

#[test]
fn forms_and_updates_have_the_fields_of_github() {
    for path in files_in(".github/ISSUE_TEMPLATE") {
        let kind = if path.ends_with("/config.yml") { "issue-config" } else { "issue-forms" };
        passes(&mut schema(&format!("vendor.github-{kind}"), &in_repository(&path)));
    }
    let wrong = spoilt(&read(".github/ISSUE_TEMPLATE/bug.yml"), "type: textarea", "type: text", ".yml");
    fails(&mut schema("vendor.github-issue-forms", wrong.path()), "text");
    passes(&mut schema("vendor.dependabot", &in_repository(".github/dependabot.yml")));
    let updates = read(".github/dependabot.yml");
    for folder in updates.lines().filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix('/')) {
        assert!(in_repository(folder).is_dir(), "no folder {folder}");
    }
    fails(&mut schema("vendor.dependabot", spoilt(&updates, "weekly", "often", ".yml").path()), "often");
}
