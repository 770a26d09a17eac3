//! The places of mutants in the sources: a line `// mutant: NAME` before a statement, an arm, a field, or an operand.

use std::{collections::BTreeMap, fs, path::Path};

const MARK: &str = "// mutant: ";
const TO_HERE: &str = ": to here";

/// A marked place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Its file, below the root of the repository.
    pub(crate) file: String,
    /// Where its line ends, in bytes.
    pub(crate) at: usize,
    /// The same of the line that says where the statement is to go.
    pub(crate) to: Option<usize>,
}

/// All marks by their names, and the sources that they are in by their files.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    pub(crate) marks: BTreeMap<String, Mark>,
    pub(crate) sources: BTreeMap<String, String>,
}

impl Marks {
    /// Those of the sources below `src`.
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

    /// Adds those of one source.
    pub(crate) fn add(&mut self, file: String, source: String) {
        let mut at = 0;
        let (mut marked, mut goals) = (Vec::new(), Vec::new());
        for line in source.split_inclusive('\n') {
            at += line.len();
            match line.trim().strip_prefix(MARK) {
                Some(name) => match name.strip_suffix(TO_HERE) {
                    Some(name) => goals.push((name, at)),
                    None => marked.push((name, at)),
                },
                None => assert!(!line.contains(MARK.trim_end()), "{file}: a mark has a line of its own: {line}"),
            }
        }
        for (name, at) in marked {
            let mark = Mark { file: file.clone(), at, to: None };
            let before = self.marks.insert(name.to_owned(), mark);
            assert_eq!(before, None, "{name}: marked twice");
        }
        for (name, to) in goals {
            let mark = self.marks.get_mut(name).filter(|mark| mark.file == file);
            let before = mark.unwrap_or_else(|| panic!("{file}: {name} goes here from nowhere")).to.replace(to);
            assert_eq!(before, None, "{name}: goes to two places");
        }
        self.sources.insert(file, source);
    }
}
