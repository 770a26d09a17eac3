//! The languages of the clients, and their drivers.

use std::{
    env, fmt,
    path::{Path, PathBuf},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    Python,
    TypeScript,
    Go,
    Java,
}

const ALL: [Language; 5] = [Language::Rust, Language::Python, Language::TypeScript, Language::Go, Language::Java];

impl Language {
    /// The languages that `FENCEPOST_INTEROP` names, separated by commas; all by default.
    pub(crate) fn selected() -> Vec<Self> {
        let Ok(names) = env::var("FENCEPOST_INTEROP") else { return ALL.to_vec() };
        let named = |name: &str| {
            let found = ALL.into_iter().find(|language| language.name() == name.trim());
            found.unwrap_or_else(|| panic!("FENCEPOST_INTEROP: no language is called {name:?}: {ALL:?}"))
        };
        names.split(',').map(named).collect()
    }

    /// As in the paths of the clients.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::TypeScript => "typescript",
            Self::Go => "go",
            Self::Java => "java",
        }
    }

    /// The driver, which `FENCEPOST_DRIVER_PYTHON` and so on override.
    pub(crate) fn driver(self) -> PathBuf {
        let name = self.name();
        let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(name).join("interop/driver");
        env::var_os(format!("FENCEPOST_DRIVER_{}", name.to_uppercase())).map_or_else(default, PathBuf::from)
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
