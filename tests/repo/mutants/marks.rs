//! The marks of mutants in the sources: a line `// mutant: NAME` before a statement, an arm, a field, or an operand.

use std::{collections::BTreeMap, fs, path::Path};

const MARK: &str = "// mutant: ";
const TO_HERE: &str = ": to here";

/// A mark.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The file, relative to the root of the repository.
    pub(crate) file: String,
    /// The byte offset of the end of the line.
    pub(crate) at: usize,
    /// The same for the mark `to here`.
    pub(crate) to: Option<usize>,
}

/// All marks by name, and their sources by file.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    pub(crate) marks: BTreeMap<String, Mark>,
    pub(crate) sources: BTreeMap<String, String>,
}

impl Marks {
    /// The marks in all sources below `src`.
    pub(crate) fn of(root: &Path) -> Self {
        let mut found = Self::default();
        let mut folders = vec![root.join("src")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "rs") {
                    let file = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                    found.add(file, fs::read_to_string(&path).unwrap());
                }
            }
        }
        found
    }

    /// Adds the marks of a source.
    pub(crate) fn add(&mut self, file: String, source: String) {
        let mut at = 0;
        let (mut marked, mut destinations) = (Vec::new(), Vec::new());
        for line in source.split_inclusive('\n') {
            at += line.len();
            match line.trim().strip_prefix(MARK) {
                Some(name) => match name.strip_suffix(TO_HERE) {
                    Some(name) => destinations.push((name, at)),
                    None => marked.push((name, at)),
                },
                None => assert!(!line.contains(MARK.trim_end()), "{file}: a mark needs its own line: {line}"),
            }
        }
        for (name, at) in marked {
            let mark = Mark { file: file.clone(), at, to: None };
            let before = self.marks.insert(name.to_owned(), mark);
            assert_eq!(before, None, "{name}: marked twice");
        }
        for (name, to) in destinations {
            let mark = self.marks.get_mut(name).filter(|mark| mark.file == file);
            let before = mark.unwrap_or_else(|| panic!("{file}: {name}: `to here` without a mark")).to.replace(to);
            assert_eq!(before, None, "{name}: two marks `to here`");
        }
        self.sources.insert(file, source);
    }
}
