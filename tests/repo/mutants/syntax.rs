//! Tokens of Rust, and the parts of a statement that mutants change.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::ops::Range;

/// A token, or a group in brackets with its content.
#[derive(Debug)]
pub(crate) struct Token {
    /// The bytes of the source.
    range: Range<usize>,
    text: String,
    inside: Option<(Delimiter, Vec<Token>)>,
}

/// Operators of several characters.
const OPERATORS: [&str; 21] = [
    "..=", "<<=", ">>=", "&&", "||", "=>", "==", "<=", ">=", "!=", "::", "->", "+=", "-=", "*=", "/=", "%=", "^=",
    "&=", "|=", "..",
];

/// The tokens of a source. Fails if it is not Rust.
pub(crate) fn tokens(source: &str) -> Result<Vec<Token>, String> {
    let stream: TokenStream = source.parse().map_err(|error| format!("{error}"))?;
    Ok(tokens_in(source, stream))
}

fn tokens_in(source: &str, stream: TokenStream) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    for tree in stream {
        let mut range = tree.span().byte_range();
        if tokens.last().is_some_and(|last| range.start < last.range.end) {
            continue; // Part of the operator before it.
        }
        let mut inside = None;
        match tree {
            TokenTree::Group(group) => inside = Some((group.delimiter(), tokens_in(source, group.stream()))),
            TokenTree::Punct(_) => {
                let operator = OPERATORS.iter().find(|operator| source[range.start..].starts_with(**operator));
                range.end = operator.map_or(range.end, |operator| range.start + operator.len());
            }
            TokenTree::Ident(_) | TokenTree::Literal(_) => {}
        }
        tokens.push(Token { text: source[range.clone()].to_owned(), range, inside });
    }
    tokens
}

impl Token {
    fn is(&self, text: &str) -> bool {
        self.inside.is_none() && self.text == text
    }

    fn is_one_of(&self, texts: &[&str]) -> bool {
        texts.iter().any(|text| self.is(text))
    }

    fn is_block(&self) -> bool {
        matches!(self.inside, Some((Delimiter::Brace, _)))
    }
}

/// The tokens after the byte `at`, up to the end of the enclosing brackets.
pub(crate) fn from(tokens: &[Token], at: usize) -> &[Token] {
    let around = |token: &&Token| token.range.start < at && at < token.range.end;
    match tokens.iter().find(around).and_then(|token| token.inside.as_ref()) {
        Some((_, inside)) => from(inside, at),
        None => &tokens[tokens.partition_point(|token| token.range.start < at)..],
    }
}

fn until(tokens: &[Token], ends: impl Fn(&Token) -> bool) -> &[Token] {
    &tokens[..tokens.iter().position(ends).unwrap_or(tokens.len())]
}

fn is_end(token: &Token) -> bool {
    token.is_one_of(&[";", ","])
}

fn is_logic(token: &Token) -> bool {
    token.is_one_of(&["&&", "||"])
}

/// The statement, or the element of a list, at the start of `tokens`, with its terminator.
pub(crate) fn statement(tokens: &[Token]) -> &[Token] {
    let ends_in_block =
        tokens.first().is_some_and(|first| first.is_one_of(&["if", "while", "for", "loop", "match", "unsafe"]));
    let ends = |at: &usize| {
        let goes_on = tokens.get(at + 1).is_some_and(|next| next.is("else"));
        is_end(&tokens[*at]) || ends_in_block && tokens[*at].is_block() && !goes_on
    };
    (0..tokens.len()).find(ends).map_or(tokens, |last| &tokens[..=last])
}

/// The condition of an `if` or `while`, or the guard of an arm.
pub(crate) fn condition(tokens: &[Token]) -> Option<&[Token]> {
    let head = until(tokens, |token| token.is(";") || token.is_block());
    let keyword = head.iter().position(|token| token.is_one_of(&["if", "while"]))?;
    Some(until(&head[keyword + 1..], |token| token.is("=>")))
}

/// The operand after the `&&` or `||` at the start of `tokens`, or else the first operand of the condition or value.
pub(crate) fn operand(tokens: &[Token]) -> Option<&[Token]> {
    let first = tokens.first()?;
    let operands = match () {
        () if is_logic(first) => until(&tokens[1..], |token| is_end(token) || token.is("=>") || token.is_block()),
        () if first.is_one_of(&["if", "while"]) => condition(tokens)?,
        () => value(tokens),
    };
    Some(until(operands, is_logic))
}

/// The assigned value, the result of an arm, or the value of a field; otherwise the whole expression.
pub(crate) fn value(tokens: &[Token]) -> &[Token] {
    let head = until(tokens, is_end);
    let sign = head.iter().enumerate().find(|(at, token)| token.is_one_of(&["=", "=>"]) || *at == 1 && token.is(":"));
    match sign {
        Some((at, sign)) if sign.is("=>") && head.get(at + 1).is_some_and(Token::is_block) => &head[at + 1..at + 2],
        Some((at, _)) => &head[at + 1..],
        None => head,
    }
}

/// The last argument of the last call with arguments in the statement.
pub(crate) fn argument(tokens: &[Token]) -> Option<&[Token]> {
    let arguments = statement(tokens).iter().rev().find_map(|token| match &token.inside {
        Some((Delimiter::Parenthesis, inside)) if !inside.is_empty() => Some(inside),
        _ => None,
    })?;
    arguments.split(|token| token.is(",")).rfind(|argument| !argument.is_empty())
}

/// The body of the first closure in the statement.
pub(crate) fn closure(tokens: &[Token]) -> Option<&[Token]> {
    fn first_in(tokens: &[Token]) -> Option<&[Token]> {
        for (at, token) in tokens.iter().enumerate() {
            let begins = at.checked_sub(1).is_none_or(|before| tokens[before].is_one_of(&[",", "=", "move"]));
            if begins && token.is("|") {
                let end = tokens[at + 1..].iter().position(|token| token.is("|"))?;
                return Some(until(&tokens[at + 1 + end + 1..], is_end));
            }
            if let Some(found) = token.inside.as_ref().and_then(|(_, inside)| first_in(inside)) {
                return Some(found);
            }
        }
        None
    }
    first_in(statement(tokens))
}

/// The bytes of the tokens in the source; `None` if there are no tokens.
pub(crate) fn range(tokens: &[Token]) -> Option<Range<usize>> {
    Some(tokens.first()?.range.start..tokens.last()?.range.end)
}
