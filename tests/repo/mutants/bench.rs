//! Where mutants are tried out: copies of the sources below `target`, built apart from the real ones.

use super::mutant::{Killer, Mutant, Mutated};
use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// What came of a mutant.
pub(crate) enum Verdict {
    Killed(String),
    Survived,
    /// No test failed, and yet the run did: it does not compile, say, since its code names what has another name now.
    Broken(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed(by) => write!(out, "killed by {by}"),
            Self::Survived => write!(out, "found by nothing"),
            Self::Broken(said) => write!(out, "no test failed, and this was said:\n{said}"),
        }
    }
}

/// Two copies: of the rules with their tests, which builds in seconds, and of all.
pub(crate) struct Bench {
    rules: PathBuf,
    rules_built: PathBuf,
    whole: PathBuf,
    /// Builds of the whole go where its dependencies are built already.
    target: PathBuf,
}

/// The rules as a package of their own: they use nothing else of ours.
const RULES_MANIFEST: &str = r#"[package]
name = "fencepost"
version = "0.1.0"
edition = "2024"

[dependencies]
hashbrown = { version = "0.17", default-features = false, features = ["default-hasher", "inline-more"] }
sha1_smol = "1.0"
smallvec = { version = "1.15", features = ["const_new"] }
thiserror = "2"
uuid = { version = "1.29", features = ["v4"] }

[dev-dependencies]
proptest = "1.12"
stateright = "0.31"

[[test]]
name = "model"
path = "tests/rules/model.rs"

[[test]]
name = "protocol"
path = "tests/rules/protocol/main.rs"

[[test]]
name = "rules_props"
path = "tests/rules/rules_props.rs"

[profile.dev]
debug = false
opt-level = 1

[workspace]
"#;

/// Without another version cargo would take what it builds from the copy for what it built from the real sources, and
/// test mutants there.
const VERSION: &str = concat!("\nversion = \"", env!("CARGO_PKG_VERSION"), "\"\n");
const VERSION_OF_THE_COPY: &str = concat!("\nversion = \"", env!("CARGO_PKG_VERSION"), "+mutant\"\n");

impl Bench {
    pub(crate) fn set_up(root: &Path) -> Self {
        let scratch = root.join("target/mutants");
        let (rules, whole) = (scratch.join("rules"), scratch.join("whole"));
        for copy in [&rules, &whole] {
            let _ = fs::remove_dir_all(copy);
        }
        for part in ["src/domain", "tests/support/rules", "tests/rules"] {
            copy(&root.join(part), &rules.join(part));
        }
        fs::write(rules.join("Cargo.toml"), RULES_MANIFEST).unwrap();
        fs::write(rules.join("src/lib.rs"), "//! The rules alone.\npub mod domain;\n").unwrap();
        copy(&root.join("Cargo.lock"), &rules.join("Cargo.lock"));
        for part in [
            "src",
            "proto",
            "clients/rust",
            "crates",
            "benches",
            "examples",
            "tests",
            "Cargo.toml",
            "Cargo.lock",
            "rust-toolchain.toml",
        ] {
            if root.join(part).exists() {
                copy(&root.join(part), &whole.join(part));
            }
        }
        let manifest = whole.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        assert!(text.contains(VERSION), "the copy is to have another version");
        fs::write(&manifest, text.replacen(VERSION, VERSION_OF_THE_COPY, 1)).unwrap();
        Self { rules, rules_built: scratch.join("built"), whole, target: root.join("target") }
    }

    /// Makes the mistake, runs its tests until one fails, and takes it back.
    pub(crate) fn try_out(&self, mutant: &Mutant, made: Mutated) -> Verdict {
        let in_whole =
            |killer: &Killer| !matches!(killer, Killer::Units | Killer::Model | Killer::Properties | Killer::Protocol);
        let copy = if mutant.killers.iter().any(in_whole) { &self.whole } else { &self.rules };
        let file = copy.join(&made.file);
        fs::write(&file, made.text).unwrap();
        let found = mutant.killers.iter().find_map(|killer| self.run(*killer));
        fs::write(&file, made.original).unwrap();
        found.unwrap_or(Verdict::Survived)
    }

    /// Runs the tests of this killer. Nothing if they pass.
    fn run(&self, killer: Killer) -> Option<Verdict> {
        let (place, target, arguments): (_, _, &[&str]) = match killer {
            Killer::Units => (&self.rules, self.rules_built.clone(), &["--lib"]),
            Killer::Model => (&self.rules, self.rules_built.clone(), &["--test", "model"]),
            Killer::Properties => (&self.rules, self.rules_built.clone(), &["--test", "rules_props"]),
            Killer::Protocol => (&self.rules, self.rules_built.clone(), &["--test", "protocol"]),
            Killer::Scripts => (&self.whole, self.target.clone(), &["--test", "redis_rules"]),
            Killer::Stores => (&self.whole, self.target.clone(), &["--test", "conformance"]),
            Killer::Replicas => {
                (&self.whole, self.target.clone(), &["--test", "redis", "--", "replicas::what_", "sessions"])
            }
            Killer::HandOver => (&self.whole, self.target.clone(), &["--test", "redis", "hand_over"]),
            Killer::Crowd => (&self.whole, self.target.clone(), &["--test", "redis", "crowd"]),
            Killer::Gaps => (&self.whole, self.target.clone(), &["--test", "redis", "--", "acl", "watching"]),
            Killer::Schedules => (&self.whole, self.target.clone(), &["--package", "fencepost-schedules"]),
        };
        let mut cargo = Command::new(env!("CARGO"));
        // What cargo says of this test is no business of the builds: some of their dependencies would be built again
        // for it.
        for (name, _) in env::vars_os().filter(|(name, _)| is_cargos_word(&name.to_string_lossy())) {
            cargo.env_remove(name);
        }
        let output = cargo
            .args(["test", "--offline", "--quiet"])
            .args(arguments)
            .current_dir(place)
            .env("CARGO_TARGET_DIR", target)
            .env("PROPTEST_MAX_SHRINK_ITERS", "0")
            .env_remove("RUST_BACKTRACE")
            .output()
            .unwrap();
        if output.status.success() {
            return None;
        }
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let failed = said.lines().find_map(|line| line.strip_prefix("---- ")?.strip_suffix(" stdout ----"));
        let Some(failed) = failed else { return Some(Verdict::Broken(said)) };
        let target = arguments.last()?.trim_start_matches("--");
        Some(Verdict::Killed(format!("{}: `{failed}`", if target == "lib" { "unit test" } else { target })))
    }
}

/// Whether cargo sets this variable for a test: which package it is of.
fn is_cargos_word(variable: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"].iter().any(|prefix| variable.starts_with(prefix))
}

/// Copies a file, or a folder with all that is in it.
fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
        return;
    }
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if !["target", ".venv", "__pycache__"].contains(&entry.file_name().to_string_lossy().as_ref()) {
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    }
}
