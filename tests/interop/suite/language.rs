//! The languages of the clients, and their drivers. Python has two clients, with threads and with asyncio.

use std::{
    env, fmt,
    path::{Path, PathBuf},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    Python,
    PythonAio,
    TypeScript,
    Go,
    Java,
}

const ALL: [Language; 6] =
    [Language::Rust, Language::Python, Language::PythonAio, Language::TypeScript, Language::Go, Language::Java];

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

    /// As in the paths of the clients; `driver-aio` is the driver of `python-aio`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::PythonAio => "python-aio",
            Self::TypeScript => "typescript",
            Self::Go => "go",
            Self::Java => "java",
        }
    }

    /// The driver, which `FENCEPOST_DRIVER_PYTHON` and so on override.
    pub(crate) fn driver(self) -> PathBuf {
        let name = self.name();
        let (folder, program) = match name.split_once('-') {
            Some((folder, kind)) => (folder, format!("driver-{kind}")),
            None => (name, "driver".to_owned()),
        };
        let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients");
        let variable = format!("FENCEPOST_DRIVER_{}", name.replace('-', "_").to_uppercase());
        env::var_os(variable).map_or_else(|| clients.join(folder).join("interop").join(program), PathBuf::from)
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
