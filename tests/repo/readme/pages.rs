//! Reads Markdown pages: blocks, code spans, links, headings.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

/// The root of the repository.
pub(crate) const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Pages outside of `docs`.
const OTHERS: [&str; 9] = [
    "README.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benches/README.md",
    "clients/rust/README.md",
    "clients/rust/guards/README.md",
    "crates/torture/RESULTS.md",
];

/// A page.
pub(crate) struct Page {
    /// Its path below [`ROOT`].
    pub(crate) path: String,
    pub(crate) text: String,
    /// The fenced blocks, each with its language.
    pub(crate) blocks: Vec<(String, String)>,
    /// The paragraphs outside of blocks, each on one line.
    paragraphs: Vec<String>,
}

impl Page {
    /// Reads a page by its path below [`ROOT`].
    pub(crate) fn read(path: &str) -> Self {
        let text = fs::read_to_string(Path::new(ROOT).join(path)).unwrap();
        let (mut blocks, mut paragraphs, mut fence) = (Vec::new(), vec![String::new()], None);
        for line in text.lines() {
            match (line.strip_prefix("```"), &mut fence) {
                (Some(language), None) => fence = Some((language.to_owned(), String::new())),
                (Some(_), Some(_)) => blocks.extend(fence.take()),
                (None, Some((_, block))) => *block += &format!("{line}\n"),
                // A row of a table is a paragraph, and so is a heading.
                (None, None) if line.is_empty() || line.starts_with(['|', '#']) => paragraphs.push(line.to_owned()),
                (None, None) => {
                    let last = paragraphs.last_mut().unwrap();
                    *last += &format!(" {}", line.trim());
                }
            }
        }
        assert!(fence.is_none(), "{path}: a block does not end");
        Self { path: path.to_owned(), text, blocks, paragraphs }
    }

    /// The fenced blocks of a language.
    pub(crate) fn blocks(&self, language: &str) -> impl Iterator<Item = &str> {
        self.blocks.iter().filter(move |(of, _)| of == language).map(|(_, text)| text.as_str())
    }

    /// The code spans of the text.
    pub(crate) fn code(&self) -> impl Iterator<Item = &str> {
        self.paragraphs.iter().flat_map(|text| text.split('`').skip(1).step_by(2))
    }

    /// The targets of links and images.
    pub(crate) fn links(&self) -> impl Iterator<Item = &str> {
        self.paragraphs.iter().flat_map(|text| text.split("](").skip(1).filter_map(|rest| rest.split(')').next()))
    }

    /// The commands in console blocks.
    pub(crate) fn commands(&self) -> Vec<String> {
        let text = self.blocks("console").collect::<String>().replace("\\\n", " ");
        text.lines().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned).collect()
    }

    /// The file that a link leads to, and the anchor in it. `None` for the network.
    pub(crate) fn target(&self, link: &str) -> Option<(PathBuf, Option<String>)> {
        if link.starts_with("https://") || link.starts_with("http://") {
            return None;
        }
        let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
        let own = Path::new(ROOT).join(&self.path);
        let file = if file.is_empty() { own } else { own.parent().unwrap().join(file) };
        Some((file, anchor.map(str::to_owned)))
    }

    /// The anchors of the headings, as GitHub makes them.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let mut seen = HashMap::<String, usize>::new();
        let headings = self.paragraphs.iter().filter_map(|text| text.strip_prefix('#'));
        let slugs = headings.map(|heading| {
            let kept = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>()
        });
        slugs
            .map(|slug| {
                let times = seen.entry(slug.clone()).or_default();
                *times += 1;
                if *times == 1 { slug } else { format!("{slug}-{}", *times - 1) }
            })
            .collect()
    }
}

/// All pages.
pub(crate) fn all() -> Vec<Page> {
    let documents = documents();
    OTHERS.map(Page::read).into_iter().chain(documents).collect()
}

/// The README and the pages in `docs`.
pub(crate) fn manual() -> Vec<Page> {
    let mut pages = documents();
    pages.insert(0, Page::read("README.md"));
    pages
}

/// The pages in `docs`.
pub(crate) fn documents() -> Vec<Page> {
    let (mut found, mut folders) = (Vec::new(), vec![Path::new(ROOT).join("docs")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path.strip_prefix(ROOT).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found.iter().map(|path| Page::read(path)).collect()
}
