//! The mistakes that can be made at a mark.

use super::{marks::Mark, syntax};

/// What becomes of the code that follows a mark. It goes by the syntax, so that whatever is named there may be renamed.
/// Where code is given, a `$` in it stands for what it replaces. Code that names things is kept small: after a rename
/// such a mutant does not compile, which fails the run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Edit {
    /// The statement is left out.
    Drop,
    /// The statement goes to the place of the mark that says `to here`.
    Move,
    /// Another statement.
    Statement(&'static str),
    /// Another condition of the `if` or `while`, or guard of the arm.
    Condition(&'static str),
    /// Another operand in a chain of `&&` or `||`: the one below the mark, which stands before `&&` or `||`, or before
    /// a statement for the first one of its condition or value.
    Operand(&'static str),
    /// Another value: of the `let` or assignment, of the arm, of the field, or the whole expression.
    Value(&'static str),
    /// Another last argument of the last call.
    Argument(&'static str),
    /// Another body of the first closure.
    Closure(&'static str),
}

impl Edit {
    /// The source with this mistake; or why it cannot be made there.
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
            part.and_then(syntax::range).ok_or_else(|| format!("its mark stands before no such thing: {self:?}"))?;
        let original = &source[range.clone()];
        let (before, after) = (&source[..range.start], &source[range.end..]);
        match (self, mark.to) {
            (Self::Move, Some(to)) if to <= range.start => {
                Ok([&source[..to], original, "\n", &source[to..range.start], after].concat())
            }
            (Self::Move, Some(to)) => Ok([before, &source[range.end..to], original, "\n", &source[to..]].concat()),
            (Self::Move, None) => Err("no mark says where to: `to here`".to_owned()),
            (_, Some(_)) => Err("a mark says `to here`, but nothing is moved".to_owned()),
            (_, None) => Ok([before, &code.replace('$', original), after].concat()),
        }
    }
}
