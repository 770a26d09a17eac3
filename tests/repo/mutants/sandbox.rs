//! The sandbox for mutants: copies of the sources below `target`, built apart from the real ones.

use super::mutant::{Killer, Mutant, Mutated, RULES};
use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The outcome of a mutant.
pub(crate) enum Verdict {
    Killed(String),
    Survived,
    /// The run failed without a failed test. The mutant does not compile, for example after a rename.
    Broken(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed(by) => write!(out, "killed by {by}"),
            Self::Survived => write!(out, "found by no test"),
            Self::Broken(output) => write!(out, "the run failed without a failed test:\n{output}"),
        }
    }
}

/// Two copies: one of the rules and their tests, which builds in seconds, and one of the whole repository.
pub(crate) struct Sandbox {
    rules: PathBuf,
    rules_built: PathBuf,
    whole: PathBuf,
    /// The target folder for builds of `whole`, in which its dependencies are built already.
    target: PathBuf,
}

/// The manifest of the rules as a separate package: they depend on no other module.
const RULES_MANIFEST: &str = r#"[package]
name = "fencepost"
version = "0.1.0"
edition = "2024"

[dependencies]
hashbrown = { version = "0.17", default-features = false, features = ["default-hasher", "inline-more"] }
minicbor = { version = "2.3", features = ["derive", "std"] }
smallvec = { version = "1.15", features = ["const_new"] }
thiserror = "2"
uuid = { version = "1.29", features = ["v4"] }

[dev-dependencies]
proptest = "1.12"
stateright = "0.31"

[[test]]
name = "model"
path = "tests/rules/model/main.rs"

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

/// The rules where their tests find them.
const RULES_LIB: &str = "//! The rules alone.\npub mod domain;\npub mod testing {\n    pub use crate::domain;\n}\n";

/// The copy has another version. Otherwise cargo would confuse its build with that of the real sources, and test
/// mutants there.
const VERSION: &str = concat!("\nversion = \"", env!("CARGO_PKG_VERSION"), "\"\n");
const VERSION_OF_THE_COPY: &str = concat!("\nversion = \"", env!("CARGO_PKG_VERSION"), "+mutant\"\n");

impl Sandbox {
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
        fs::write(rules.join("src/lib.rs"), RULES_LIB).unwrap();
        copy(&root.join("Cargo.lock"), &rules.join("Cargo.lock"));
        for part in [
            "src",
            "proto",
            "clients/rust",
            "crates",
            "deploy",
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
        assert!(text.contains(VERSION), "the manifest has the version that the copy replaces");
        fs::write(&manifest, text.replacen(VERSION, VERSION_OF_THE_COPY, 1)).unwrap();
        Self { rules, rules_built: scratch.join("built"), whole, target: root.join("target") }
    }

    /// Writes the mutant, runs its tests until one fails, and restores the source.
    pub(crate) fn test(&self, mutant: &Mutant, made: Mutated) -> Verdict {
        let of_rules = made.file.starts_with(RULES) && mutant.killers.iter().all(|killer| killer.tests_rules());
        let copy = if of_rules { &self.rules } else { &self.whole };
        let file = copy.join(&made.file);
        fs::write(&file, made.text).unwrap();
        let found = mutant.killers.iter().find_map(|killer| self.run(*killer, of_rules));
        fs::write(&file, made.original).unwrap();
        found.unwrap_or(Verdict::Survived)
    }

    /// Runs the tests of a killer. `None` if they pass.
    fn run(&self, killer: Killer, of_rules: bool) -> Option<Verdict> {
        let (folder, target, arguments): (_, _, &[&str]) = match killer {
            Killer::Units if !of_rules => (&self.whole, self.target.clone(), &["--lib"]),
            Killer::Units => (&self.rules, self.rules_built.clone(), &["--lib"]),
            Killer::Model => (&self.rules, self.rules_built.clone(), &["--test", "model"]),
            Killer::Properties => (&self.rules, self.rules_built.clone(), &["--test", "rules_props"]),
            Killer::Protocol => (&self.rules, self.rules_built.clone(), &["--test", "protocol"]),
            Killer::Moves => {
                (&self.whole, self.target.clone(), &["--test", "servers", "--", "ends::", "features::", "moves::"])
            }
            Killer::Gaps => (&self.whole, self.target.clone(), &["--test", "redis", "--", "acl", "watching"]),
            Killer::Schedules => (&self.whole, self.target.clone(), &["--package", "fencepost-schedules"]),
        };
        let mut cargo = Command::new(env!("CARGO"));
        // Variables that cargo sets for this test would make it rebuild some dependencies.
        for (name, _) in env::vars_os().filter(|(name, _)| is_set_by_cargo(&name.to_string_lossy())) {
            cargo.env_remove(name);
        }
        let output = cargo
            .args(["test", "--offline", "--quiet"])
            .args(arguments)
            .current_dir(folder)
            .env("CARGO_TARGET_DIR", target)
            .env("PROPTEST_MAX_SHRINK_ITERS", "0")
            .env_remove("RUST_BACKTRACE")
            .output()
            .unwrap();
        if output.status.success() {
            return None;
        }
        let output = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let failed = output.lines().find_map(|line| line.strip_prefix("---- ")?.strip_suffix(" stdout ----"));
        let Some(failed) = failed else { return Some(Verdict::Broken(output)) };
        let target = arguments.last()?.trim_start_matches("--");
        Some(Verdict::Killed(format!("{}: `{failed}`", if target == "lib" { "unit test" } else { target })))
    }
}

/// Whether cargo sets this variable for a test.
fn is_set_by_cargo(variable: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"].iter().any(|prefix| variable.starts_with(prefix))
}

/// Copies a file, or a folder with its content.
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
