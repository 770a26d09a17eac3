//! Small mistakes in a Lua script, one at a time: what a slip of the keyboard, or a wrong idea of a bound, makes of it.

/// The scripts, part by part.
pub(crate) const PARTS: [(&str, &str); 13] = {
    macro_rules! parts {
        ($($name:literal),+) => {
            [$(($name, include_str!(concat!("../../../src/store/quorum/nodes/lua/", $name, ".lua")))),+]
        };
    }
    parts!(
        "head", "kept", "mark", "promise", "batch", "batches", "write", "read", "stage", "admit", "beat", "classic",
        "prefix"
    )
};

/// What operators become.
const OPERATORS: [(&str, &str); 12] = [
    ("==", "~="),
    ("~=", "=="),
    (">=", ">"),
    (" < ", " <= "),
    (" < ", " > "),
    (" > ", " >= "),
    (" > ", " < "),
    (" and ", " or "),
    (" or ", " and "),
    ("not ", ""),
    (" + ", " - "),
    (" - ", " + "),
];

/// A mistake.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    pub(crate) part: &'static str,
    /// The number of the line, from 1 on.
    pub(crate) line: usize,
    /// The line before and after it, without indentation.
    pub(crate) from: String,
    pub(crate) to: String,
    /// The part with the mistake.
    pub(crate) text: String,
}

/// All mistakes in all parts.
pub(crate) fn all() -> Vec<Edit> {
    PARTS.into_iter().flat_map(|(part, text)| of_part(part, text)).collect()
}

fn of_part(part: &'static str, text: &str) -> Vec<Edit> {
    let lines: Vec<&str> = text.lines().collect();
    let mut edits = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        for changed in of_line(line) {
            let mut all = lines.clone();
            all[at] = &changed;
            let (from, to, text) = (line.trim().to_owned(), changed.trim().to_owned(), all.join("\n") + "\n");
            edits.push(Edit { part, line: at + 1, from, to, text });
        }
    }
    edits
}

fn of_line(line: &str) -> Vec<String> {
    let code = code_of(line);
    let mut changed: Vec<String> = Vec::new();
    for (from, to) in OPERATORS {
        let found = code.match_indices(from).map(|(at, _)| replaced(line, at, from.len(), to));
        changed.extend(found);
    }
    let is_digit = |at: usize| code.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let is_name = |at: usize| code.as_bytes().get(at).is_some_and(|it| it.is_ascii_alphanumeric() || *it == b'_');
    for at in (0..code.len()).filter(|at| is_digit(*at) && (*at == 0 || !is_name(*at - 1))) {
        let length = (at..).take_while(|at| is_digit(*at)).count();
        let number: u64 = code[at..at + length].parse().expect("digits");
        changed.push(replaced(line, at, length, &(number + 1).to_string()));
    }
    let word = code.trim_start();
    let is_statement = word.starts_with("redis.call(") || word.starts_with("call(") || word.starts_with("headers[h]");
    if is_statement || word.starts_with("if ") && word.trim_end().ends_with(" end") {
        changed.push(String::new());
    }
    changed
}

fn replaced(line: &str, at: usize, length: usize, by: &str) -> String {
    format!("{}{by}{}", &line[..at], &line[at + length..])
}

/// The line with blanks in place of texts and of the comment. Texts have one kind of quotes, and none within.
fn code_of(line: &str) -> String {
    let (mut code, mut in_text) = (String::new(), false);
    for (at, it) in line.char_indices() {
        if !in_text && line[at..].starts_with("--") {
            break;
        }
        in_text ^= it == '\'';
        code.push(if in_text || it == '\'' { ' ' } else { it });
    }
    code
}
