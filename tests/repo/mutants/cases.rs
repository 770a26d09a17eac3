//! Tests of the edits.

use super::{
    edit::Edit::{self, Argument, Closure, Condition, Drop, Move, Operand, Statement, Value},
    marks::Marks,
};

/// Applies an edit at the mark `it`. Returns the code without line breaks and marks.
fn mutated(code: &str, edit: Edit) -> Result<String, String> {
    let mut marks = Marks::default();
    marks.add("it.rs".to_owned(), format!("fn f() {{\n{code}\n}}"));
    let text = edit.make(&marks.sources["it.rs"], &marks.marks["it"])?;
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("// mutant"));
    let body = lines.collect::<Vec<_>>().join(" ");
    Ok(body.trim_start_matches("fn f() {").trim_end_matches('}').split_whitespace().collect::<Vec<_>>().join(" "))
}

fn becomes(code: &str, edit: Edit, expected: &str) {
    assert_eq!(mutated(code, edit).as_deref(), Ok(expected), "{edit:?} of {code}");
}

#[test]
fn statements_end_where_rust_ends_them() {
    for statement in [
        "x.y(1, |a| a; b);",
        "if a { b } else if c { d } else { e }",
        "while let Some(x) = y.next() { z(); }",
        "let x = if a { b } else { c };",
        "let Some(x) = y else { return };",
        "match x { a => b, _ => {} }",
        "x.y()",
    ] {
        let code = format!("before(); // a comment\n// mutant: it\n{statement}\nafter();");
        let code = if statement.ends_with(')') { code.trim_end_matches("\nafter();") } else { &code };
        let mut expected = "before(); // a comment".to_owned();
        expected.push_str(if statement.ends_with(')') { "" } else { " after();" });
        becomes(code, Drop, &expected);
    }
    becomes("list! {\n// mutant: it\na = A,\nb = B,\n}", Drop, "list! { b = B, }");
    becomes("// mutant: it\na(b);\nc();", Statement("$ d();"), "a(b); d(); c();");
}

#[test]
fn conditions_and_operands() {
    becomes("// mutant: it\nif a.b(|| c) < d { e }", Condition("false"), "if false { e }");
    becomes("// mutant: it\nwhile a && b { c }", Condition("$ && d"), "while a && b && d { c }");
    becomes(
        "select! {\n// mutant: it\n() = a, if !*b => { c }\n}",
        Condition("false"),
        "select! { () = a, if false => { c } }",
    );
    becomes("// mutant: it\nif a == b || c { d }", Operand("false"), "if false || c { d }");
    becomes("if a == b\n// mutant: it\n|| c(d || e)\n{ f }", Operand("false"), "if a == b || false { f }");
    becomes("if a\n// mutant: it\n&& b\n&& c\n{ d }", Operand("true"), "if a && true && c { d }");
    becomes("// mutant: it\nlet a = b == c && d;", Operand("true"), "let a = true && d;");
    becomes("let a = b\n// mutant: it\n&& c.d();\ne();", Operand("true"), "let a = b && true; e();");
    becomes("a();\n// mutant: it\n!b && c", Operand("true"), "a(); true && c");
}

#[test]
fn values_arguments_and_closures() {
    becomes("// mutant: it\nlet a: B<C> = d <= e;", Value("f"), "let a: B<C> = f;");
    becomes(
        "match a {\n// mutant: it\nB(c) | D::E(c) => f(c),\n_ => g }",
        Value("h"),
        "match a { B(c) | D::E(c) => h, _ => g }",
    );
    becomes("match a {\n// mutant: it\nB => { c }\n_ => d }", Value("e"), "match a { B => e _ => d }");
    becomes("A {\n// mutant: it\nb: c::d(e),\nf }", Value("g"), "A { b: g, f }");
    becomes("// mutant: it\na(b).c()", Value("d"), "d");
    becomes("// mutant: it\na(b, c(d)).e();", Argument("f"), "a(b, f).e();");
    becomes("// mutant: it\na(b).c(d, e,);", Argument("$ / 4"), "a(b).c(d, e / 4,);");
    becomes(
        "// mutant: it\nif a(b).is_some_and(|c| c == d) { e }",
        Closure("true"),
        "if a(b).is_some_and(|c| true) { e }",
    );
    becomes("// mutant: it\nlet a = |b| c(b);", Closure("true"), "let a = |b| true;");
}

#[test]
fn statements_move_up_and_down() {
    becomes("// mutant: it\na();\nb();\n// mutant: it: to here\nc();", Move, "b(); a(); c();");
    becomes("// mutant: it: to here\na();\n// mutant: it\nb();\nc();", Move, "b(); a(); c();");
    becomes("x! { a {\n// mutant: it\nb,\n} c {\n// mutant: it: to here\nd,\n} }", Move, "x! { a { } c { b, d, } }");
}

#[test]
fn edits_do_not_depend_on_names() {
    let code = "if self.now < self.not_after\n// mutant: it\n&& is_there(self.lease.left(now))\n{ grant(lease) }";
    let renamed = code.replace("is_there", "has_time").replace("lease", "hold").replace("now", "at");
    for code in [code, &renamed] {
        let expected =
            code.replace("is_there(self.lease.left(now))", "true").replace("has_time(self.hold.left(at))", "true");
        let expected = expected.replace("// mutant: it\n", "").replace('\n', " ");
        becomes(code, Operand("true"), &expected);
    }
}

#[test]
fn impossible_edits_are_errors() {
    for (code, edit) in [
        ("// mutant: it\na();", Condition("true")),
        ("// mutant: it\na();", Closure("true")),
        ("// mutant: it\na;", Argument("b")),
        ("a();\n// mutant: it", Drop),
        ("// mutant: it\na();", Move),
        ("// mutant: it\na();\n// mutant: it: to here", Drop),
    ] {
        assert!(mutated(code, edit).is_err(), "{edit:?} of {code}");
    }
}
