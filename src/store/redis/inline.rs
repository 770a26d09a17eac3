//! Scripts as they are sent: with constants in place of their names, and without comments.
//!
//! Lua 5.1 has no constants. A name is a local variable, each function that uses it is made with a reference to it, and
//! Redis makes all functions of a script anew each time that it runs. That was a third of what a script of one command
//! cost. The lines that Redis names in errors are those of what is sent; texts in double brackets are not known here.

use std::collections::HashMap;

/// Lines `local NAME = value`, where the name is in capitals and the value a text, a number or `nil`, go, and the value
/// stands for the name.
pub(super) fn constants(script: &str) -> String {
    let mut values = HashMap::new();
    let mut inlined = String::with_capacity(script.len());
    for line in script.lines() {
        if let Some((name, value)) = constant(line) {
            values.insert(name, value);
            continue;
        }
        if line.starts_with("#!") {
            inlined.push_str(line);
        } else {
            inline(line.trim_start(), &values, &mut inlined);
        }
        if !inlined.ends_with('\n') {
            inlined.push('\n');
        }
    }
    inlined
}

fn constant(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix("local ")?.split_once(" = ")?;
    let named = name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    let inside = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    let is_text = inside.is_some_and(|inside| !inside.contains('\''));
    (named && (is_text || value == "nil" || value.parse::<u64>().is_ok())).then_some((name, value))
}

/// A line of code. What stands in quotes stays as it is; a comment ends it.
fn inline(line: &str, values: &HashMap<&str, &str>, out: &mut String) {
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        if rest.starts_with("--") {
            return out.truncate(out.trim_end_matches(' ').len());
        }
        let length = match first {
            '\'' | '"' => quoted(rest, first),
            'a'..='z' | 'A'..='Z' | '_' => {
                rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(rest.len())
            }
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        out.push_str(values.get(token).unwrap_or(&token));
        rest = after;
    }
}

/// How long the text is that a line begins with.
fn quoted(line: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in line.char_indices().skip(1) {
        if letter == quote && !escaped {
            return at + 1;
        }
        escaped = letter == '\\' && !escaped;
    }
    line.len()
}

#[cfg(test)]
mod tests {
    use super::constants;

    #[test]
    fn values_stand_for_names_outside_of_texts() {
        let script = "#!lua flags=x -- no comment\nlocal SPAN = 30\nlocal MARK = '--\\0'\nlocal ODD = nil\n-- SPAN\n\
                      \x20 if ODD or SPANS.SPAN_ then say('SPAN \\' -- SPAN', \"MARK\", SPAN) .. MARK end  -- MARK\nlocal LIST = { SPAN }\n";
        let sent = "#!lua flags=x -- no comment\n\
                    if nil or SPANS.SPAN_ then say('SPAN \\' -- SPAN', \"MARK\", 30) .. '--\\0' end\nlocal LIST = { 30 }\n";
        assert_eq!(constants(script), sent);
    }
}
