//! Checks the README and the pages in `docs` against the repository: links, quoted code, commands, paths, exit codes,
//! configuration, limits, permissions, log messages.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod facts;
mod pages;

use clap::{Parser, error::ErrorKind};
use fencepost::cli::Cli;
use fencepost_proto::v1::DESCRIPTORS;
use pages::{Page, ROOT};
use prost_reflect::{DescriptorPool, DynamicMessage};
use std::{fs, path::Path};

/// The README is read to the end.
const README_LINES_MAX: usize = 199;
/// The folders at the root, by which paths are recognized.
const FOLDERS: [&str; 9] =
    ["src/", "tests/", "proto/", "examples/", "clients/", "crates/", "benches/", "docs/", "deploy/"];
/// The languages of blocks that are not quoted from a file.
const NOT_QUOTED: [&str; 2] = ["console", "text"];

/// The words of a shell command, up to the next command of the line.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for character in command.chars() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '|' | ';' | '&') => break,
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// The error of the command line's parser, if it rejects these words.
fn rejected(words: &[String]) -> Option<ErrorKind> {
    match Cli::try_parse_from(words).err()?.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => None,
        kind => Some(kind),
    }
}

#[test]
fn the_readme_is_short_and_leads_to_every_page() {
    let readme = Page::read("README.md");
    let lines = readme.text.lines().count();
    assert!(lines <= README_LINES_MAX, "README.md has {lines} lines; at most {README_LINES_MAX}: move text to docs/");
    for page in pages::documents() {
        // The pages of a folder are found through its README.
        let is_linked = readme.links().any(|link| link.split('#').next() == Some(&page.path));
        let is_inner = Path::new(&page.path).parent() != Some(Path::new("docs"));
        assert!(is_linked || is_inner && !page.path.ends_with("README.md"), "README.md does not link to {}", page.path);
    }
}

#[test]
fn the_parser_accepts_every_command_in_a_console_block() {
    let mut seen = 0;
    for page in pages::all() {
        for command in page.commands() {
            let mut words = words(&command);
            if command.starts_with("cargo run --release -- ") {
                words.splice(..4, ["fencepost".to_owned()]);
            }
            if words[0] == "fencepost" {
                seen += 1;
                assert_eq!(rejected(&words), None, "{}: {command}", page.path);
            }
        }
    }
    assert!(seen > 20, "{seen}");
    assert_eq!(Page::read("README.md").commands()[0], "cargo run --release -- serve", "the first command");
}

/// Cargo says that a test target is missing only once it runs.
#[test]
fn every_test_that_a_page_runs_is_a_target() {
    let root = Path::new(ROOT);
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let mut seen = 0;
    for page in pages::all() {
        let commands = page.commands().into_iter().chain(page.code().map(str::to_owned));
        for command in commands.filter(|command| command.contains("cargo test ")) {
            let words = words(command.split_once("cargo test ").unwrap().1);
            for name in words.windows(2).filter(|pair| pair[0] == "--test").map(|pair| &pair[1]) {
                seen += 1;
                let is_target = manifest.contains(&format!("\n[[test]]\nname = \"{name}\"\n"));
                let of_client = root.join("clients/rust/tests").join(name).with_extension("rs");
                assert!(is_target || of_client.exists(), "{}: {command}: no test target {name}", page.path);
            }
        }
    }
    assert!(seen > 10, "{seen}");
}

#[test]
fn every_command_in_the_text_exists() {
    let makefile = fs::read_to_string(Path::new(ROOT).join("Makefile")).unwrap();
    for page in pages::all() {
        for code in page.code() {
            if let Some(target) = code.strip_prefix("make ") {
                let target = target.split(' ').next().unwrap();
                assert!(makefile.contains(&format!("\n{target}: ")), "{}: {code}", page.path);
            }
            let whole = if code.starts_with("serve ") { format!("fencepost {code}") } else { code.to_owned() };
            if whole.starts_with("fencepost ") {
                // The text may name a command without its arguments, and an option without its value.
                let words = words(&whole);
                let is_option = words.last().is_some_and(|word| word.starts_with("--"));
                let why = rejected(&words);
                let is_fine = why.is_none_or(|kind| {
                    kind == ErrorKind::MissingRequiredArgument || is_option && kind == ErrorKind::InvalidValue
                });
                assert!(is_fine, "{}: {code}: {why:?}", page.path);
            }
        }
    }
}

/// Each request of grpcurl is one of the API.
#[test]
fn the_requests_of_grpcurl_are_those_of_the_api() {
    let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
    let mut seen = 0;
    for command in pages::all().iter().flat_map(Page::commands) {
        let words = words(&command);
        let Some(data) = words.iter().position(|word| word == "-d").filter(|_| words[0] == "grpcurl") else { continue };
        let (service, method) = words.last().unwrap().split_once('/').unwrap();
        let service = pool.get_service_by_name(service).unwrap();
        let method = service.methods().find(|known| known.name() == method).unwrap();
        let mut json = serde_json::Deserializer::from_str(&words[data + 1]);
        if let Err(error) = DynamicMessage::deserialize(method.input(), &mut json) {
            panic!("{command}: {error}");
        }
        seen += 1;
    }
    assert!(seen > 0, "no request");
}

#[test]
fn every_link_leads_somewhere() {
    for page in pages::all() {
        for link in page.links() {
            let Some((file, anchor)) = page.target(link) else { continue };
            assert!(file.exists(), "{}: {link}", page.path);
            if let Some(anchor) = anchor {
                let file = file.canonicalize().unwrap();
                let inner = file.strip_prefix(Path::new(ROOT).canonicalize().unwrap()).unwrap();
                let anchors = Page::read(inner.to_str().unwrap()).anchors();
                assert!(anchors.contains(&anchor), "{}: {link}: there are {anchors:?}", page.path);
            }
        }
    }
}

#[test]
fn every_path_exists() {
    for page in pages::all() {
        let commands = page.commands().into_iter().flat_map(|command| words(&command));
        let code = page.code().filter_map(|code| code.split(' ').next()).map(str::to_owned);
        for path in code.chain(commands).filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder))) {
            assert!(Path::new(ROOT).join(&path).exists(), "{}: {path}", page.path);
        }
    }
}

/// The code in a folder, all files together.
fn rust_in(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text += &rust_in(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text += &fs::read_to_string(path).unwrap();
        }
    }
    text
}

/// A long name in code is that of a test: here each defence has the test that attacks it.
#[test]
fn every_test_that_the_threat_model_names_exists() {
    let tests = rust_in(&Path::new(ROOT).join("tests"));
    let page = Page::read("docs/security.md");
    let names: Vec<_> = page.code().filter(|code| code.matches('_').count() >= 4).collect();
    for name in &names {
        assert!(tests.contains(&format!("fn {name}()")), "{}: no test {name}", page.path);
    }
    assert!(names.len() > 10, "{names:?}");
}

/// Whether the file has the lines of the block in this order, with any indentation.
fn quotes(file: &Path, block: &str) -> bool {
    let Ok(text) = fs::read_to_string(file) else { return false };
    let mut lines = text.lines();
    block.lines().all(|line| lines.any(|other| other.trim() == line.trim()))
}

/// Code in the pages is quoted from a file that the page names, so that it is compiled, run or parsed.
#[test]
fn quoted_code_is_in_a_file_that_the_page_names() {
    let mut seen = 0;
    for page in pages::manual() {
        let links = page.links().filter_map(|link| page.target(link)).map(|(file, _)| file);
        let code = page.code().filter(|code| code.contains('/')).map(|code| Path::new(ROOT).join(code));
        let files: Vec<_> = links.chain(code).filter(|file| file.is_file()).collect();
        for (language, block) in page.blocks.iter().filter(|(language, _)| !NOT_QUOTED.contains(&language.as_str())) {
            seen += 1;
            assert!(
                files.iter().any(|file| quotes(file, block)),
                "{}: no file has this {language}:\n{block}",
                page.path
            );
        }
    }
    assert!(seen >= 5, "{seen}");
}

#[test]
fn anchors_are_those_of_github() {
    let page = Page::read("docs/operating/redis.md");
    let anchors = page.anchors();
    for anchor in ["one-redis", "several-servers-on-one-redis", "tokens-after-a-loss-of-data"] {
        assert!(anchors.contains(&anchor.to_owned()), "{anchors:?}");
    }
}
