//! The edits that a mutant can make at a mark.

use super::{marks::Mark, syntax};

/// An edit of the code after a mark. It is defined by syntax, so that renames do not break it. In given code, `$`
/// stands for the replaced code. Given code should use few names, because after a rename such a mutant does not
/// compile, which fails the run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Edit {
    /// Removes the statement.
    Drop,
    /// Moves the statement to the mark `to here`.
    Move,
    /// Replaces the statement.
    Statement(&'static str),
    /// Replaces the condition of the `if` or `while`, or the guard of the arm.
    Condition(&'static str),
    /// Replaces an operand in a chain of `&&` or `||`. The mark is before the operator of the operand; before a
    /// statement, it means the first operand of the condition or value.
    Operand(&'static str),
    /// Replaces the value of the `let` or assignment, of the arm, or of the field, or the whole expression.
    Value(&'static str),
    /// Replaces the last argument of the last call.
    Argument(&'static str),
    /// Replaces the body of the first closure.
    Closure(&'static str),
}

impl Edit {
    /// The edited source, or why the edit is not possible.
    pub(crate) fn make(self, source: &str, mark: &Mark) -> Result<String, String> {
        let tokens = syntax::tokens(source)?;
        let rest = syntax::from(&tokens, mark.at);
        let (part, code) = match self {
            Self::Drop | Self::Move => (Some(syntax::statement(rest)), ""),
            Self::Statement(code) => (Some(syntax::statement(rest)), code),
            Self::Condition(code) => (syntax::condition(rest), code),
            Self::Operand(code) => (syntax::operand(rest), code),
            Self::Value(code) => (Some(syntax::value(rest)), code),
            Self::Argument(code) => (syntax::argument(rest), code),
            Self::Closure(code) => (syntax::closure(rest), code),
        };
        let range =
            part.and_then(syntax::range).ok_or_else(|| format!("the code after its mark does not fit: {self:?}"))?;
        let original = &source[range.clone()];
        let (before, after) = (&source[..range.start], &source[range.end..]);
        match (self, mark.to) {
            (Self::Move, Some(to)) if to <= range.start => {
                Ok([&source[..to], original, "\n", &source[to..range.start], after].concat())
            }
            (Self::Move, Some(to)) => Ok([before, &source[range.end..to], original, "\n", &source[to..]].concat()),
            (Self::Move, None) => Err("there is no mark `to here`".to_owned()),
            (_, Some(_)) => Err("there is a mark `to here`, but the edit moves nothing".to_owned()),
            (_, None) => Ok([before, &code.replace('$', original), after].concat()),
        }
    }
}
