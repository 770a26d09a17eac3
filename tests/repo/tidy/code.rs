//! Just enough of Rust's grammar to separate code from comments and literals.

/// Replaces comments and literals in `text` by blanks, and keeps line breaks.
pub(crate) fn code_of(text: &str) -> String {
    blanked(text, true)
}

/// Replaces only literals by blanks.
pub(crate) fn without_literals(text: &str) -> String {
    blanked(text, false)
}

fn blanked(text: &str, blank_comments: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = end_of_skipped(text, at);
        if end > at && !blank_comments && bytes[at] == b'/' {
            out.extend(&bytes[at..end]);
            at = end;
        } else if end > at {
            out.extend(bytes[at..end].iter().map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }));
            at = end;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The end of the comment or literal that begins at `at`; `at` itself if there is none.
fn end_of_skipped(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let from = |start: usize, pattern: &str| {
        text.as_bytes()[start.min(bytes.len())..]
            .windows(pattern.len())
            .position(|window| window == pattern.as_bytes())
            .map_or(bytes.len(), |found| start + found + pattern.len())
    };
    let rest = &bytes[at..];
    let after_name = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    if rest.starts_with(b"//") {
        return at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }
    if rest.starts_with(b"/*") {
        return from(at + 2, "*/");
    }
    if rest[0] == b'r' && !after_name {
        let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
        if rest.get(1 + hashes) == Some(&b'"') {
            return from(at + 2 + hashes, &format!("\"{}", "#".repeat(hashes)));
        }
    }
    if rest[0] == b'"' {
        return quoted_end(bytes, at, b'"');
    }
    // A character literal. A lifetime has no quote after its first letter.
    if rest[0] == b'\'' && (rest.get(1) == Some(&b'\\') || rest.get(2) == Some(&b'\'')) {
        return quoted_end(bytes, at, b'\'');
    }
    at
}

fn quoted_end(bytes: &[u8], start: usize, quote: u8) -> usize {
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// All words of `text` in lower case, also the parts of identifiers.
pub(crate) fn words_of(text: &str) -> Vec<String> {
    let (mut words, mut before) = (vec![String::new()], ' ');
    for letter in text.chars() {
        if !letter.is_alphabetic() || letter.is_uppercase() && before.is_lowercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphabetic()) {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether `code` contains `word` as a whole identifier.
pub(crate) fn has_word(code: &str, word: &str) -> bool {
    let inside = |character: Option<char>| character.is_some_and(|c| c.is_alphanumeric() || c == '_');
    code.match_indices(word)
        .any(|(at, _)| !inside(code[..at].chars().next_back()) && !inside(code[at + word.len()..].chars().next()))
}

/// The names directly below `root` in the paths of `code`, such as `a` and `c` in `root::a::b` or `root::{a::b, c}`.
pub(crate) fn named_below(code: &str, root: &str) -> Vec<String> {
    let packed: String = code.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut names = Vec::new();
    for (at, _) in packed.match_indices(root) {
        if packed[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let Some(rest) = packed[at + root.len()..].trim_start().strip_prefix("::") else { continue };
        match rest.trim_start().strip_prefix('{') {
            None => names.extend(first_names(rest)),
            Some(group) => names.extend(parts_of_group(group).into_iter().flat_map(first_names)),
        }
    }
    names
}

/// The comma-separated parts of a group; `group` starts after the opening brace.
fn parts_of_group(group: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&group[start..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// The first name of a path, with the second one if there is one; several, if the path ends in a group.
fn first_names(path: &str) -> Vec<String> {
    let end = |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let path = path.trim_start();
    let first = &path[..end(path)];
    match path[first.len()..].trim_start().strip_prefix("::").map(str::trim_start) {
        Some(rest) if end(rest) > 0 => vec![format!("{first}::{}", &rest[..end(rest)])],
        Some(rest) if rest.starts_with('{') => {
            let parts = parts_of_group(&rest[1..]).into_iter().map(str::trim_start);
            parts.map(|part| format!("{first}::{}", &part[..end(part)])).collect()
        }
        _ => vec![first.to_owned()],
    }
}
