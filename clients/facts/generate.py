#!/usr/bin/env python3
"""Writes the facts that all clients share into the source of each: from `clients/facts.json`, the reasons of errors in
`proto/fencepost/v1/lock.proto`, and the statements in `clients/guards`.

    clients/facts/generate.py           writes the files
    clients/facts/generate.py --check   fails if a file is not what it would write
"""

import json
import re
import sys
from pathlib import Path
from textwrap import wrap

CLIENTS = Path(__file__).resolve().parent.parent
ORIGIN = "Written by clients/facts/generate.py: change clients/facts.json, clients/guards or lock.proto, and run it."
COLUMNS = 100
# As in rustfmt.toml.
RUST_COLUMNS = 120
# The parameters of the statements and their numbers. They come in this order, also where one is repeated.
NUMBERS = {"lock_name": 1, "token": 2, "grant_id": 3}
PARAMETER = re.compile(rf":({'|'.join(NUMBERS)})\b")


def reasons():
    """The reasons of errors and their codes, from the table in the manual of the API."""
    manual = (CLIENTS.parent / "proto/fencepost/v1/lock.proto").read_text()
    found = re.findall(r"^// {3}([A-Z_]+) +([A-Z_]+) {2,}[A-Z]", manual, re.MULTILINE)
    assert len(found) == len(re.findall(r"^// {3}[A-Z_]{4,} ", manual, re.MULTILINE)) > 0, f"lock.proto: {found}"
    return {reason: code for code, reason in found}


def statements(store):
    """The named statements of a store, each without comments and without the semicolon."""
    parts = re.split(r"^-- name: (\w+)\n", (CLIENTS / "guards" / f"{store}.sql").read_text(), flags=re.MULTILINE)[1:]
    found = {}
    for name, text in zip(parts[::2], parts[1::2]):
        found[name] = uncommented(text).removesuffix(";")
    return found


def uncommented(text):
    return "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()


def numbered(text):
    return PARAMETER.sub(lambda found: f"${NUMBERS[found[1]]}", text)


def unnamed(text):
    return PARAMETER.sub("?", text)


def guards(style):
    """The texts of the guards: name, comment and text. `style` maps each SQL store to a style of parameters."""
    stores = {"postgres": "PostgreSQL", "mysql": "MySQL and MariaDB", "sqlite": "SQLite"}
    does = {
        "create": "Creates the table of fences.",
        "raise": "Raises a fence. Parameters: lock name, token, grant id.",
        "newest": "Reads a fence. Parameter: lock name.",
        "has_shared": "Counts the columns for shared locks in the table of fences: 1 or 0.",
        "add_shared": "Adds the column for shared locks to the table of fences.",
        "raise_shared": "Raises the shared token of a fence. Parameters: lock name, token, grant id.",
        "check_shared": "Locks a fence for readers. Parameters: lock name, token (three times if it is a ?), grant id.",
        "newest_shared": "Reads a fence for a reader. Parameter: lock name.",
    }
    for store, title in stores.items():
        for name, text in statements(store).items():
            yield f"GUARD_{store}_{name}".upper(), f"{does[name]} For {title}.", style[store](text)
    scripts = {
        "raise": "Raises a fence in Redis. Append the script that writes.",
        "raise_shared": "Raises the shared token of a fence in Redis.",
        "check_shared": "Checks the token of a reader in Redis. Append the script that does its work.",
    }
    for name, about in scripts.items():
        script = uncommented((CLIENTS / f"guards/{name}.lua").read_text())
        yield f"GUARD_REDIS_{name}".upper(), f"{about} Keys: the fence. Arguments: token, grant id.", script


def comment(mark, text):
    return [f"{mark} {line}" for line in wrap(text, COLUMNS)]


def quoted(text):
    return json.dumps(text, ensure_ascii=True)


def python(facts):
    """Parameters are named, as SQLAlchemy and sqlite3 take them."""
    out = [f"# {ORIGIN}", '"""Facts that all clients share."""', ""]
    out += ["from collections.abc import Mapping", "from typing import Final", ""]
    for name, value, about in facts:
        kind = "int" if isinstance(value, int) else "str"
        out += [*comment("#", about), f"{name}: Final[{kind}] = {json.dumps(value)}"]
    out += ["# The reasons of errors, and their gRPC codes.", "REASONS: Final[Mapping[str, str]] = {"]
    out += [f"    {quoted(reason)}: {quoted(code)}," for reason, code in reasons().items()] + ["}"]
    for name, about, text in guards({"postgres": str, "mysql": str, "sqlite": str}):
        out += [*comment("#", about), f'{name}: Final[str] = """\\\n{text}"""']
    return out


def typescript(facts):
    out = [f"// {ORIGIN}", ""]
    for name, value, about in facts:
        out += [*comment("//", about), f"export const {name} = {json.dumps(value)};"]
    out += ["// The reasons of errors, and their gRPC codes."]
    out += ["export const REASONS: Readonly<Record<string, string>> = {"]
    out += [f"  {reason}: {quoted(code)}," for reason, code in reasons().items()] + ["};"]
    for name, about, text in guards({"postgres": numbered, "mysql": unnamed, "sqlite": unnamed}):
        out += [*comment("//", about), f"export const {name} = `{text}`;"]
    return out


def go(facts):
    initials = {word: word for word in ("TTL", "CA", "MS", "TLS", "GRPC")}

    def named(name):
        return "".join(initials.get(word, word.capitalize()) for word in name.split("_"))

    out = ["// Code generated by clients/facts/generate.py; DO NOT EDIT.", ""]
    out += ["// Package facts has the facts that the clients of all languages share.", "package facts", ""]
    for name, value, about in facts:
        out += [*comment("//", f"{named(name)}: {about}"), f"const {named(name)} = {json.dumps(value)}", ""]
    out += ["// Reasons: the reasons of errors, and their gRPC codes.", "var Reasons = map[string]string{"]
    width = max(map(len, reasons())) + 4
    out += [f'\t{quoted(reason) + ":":<{width}}{quoted(code)},' for reason, code in reasons().items()] + ["}", ""]
    for name, about, text in guards({"postgres": numbered, "mysql": unnamed, "sqlite": unnamed}):
        out += [*comment("//", f"{named(name)}: {about}"), f"const {named(name)} = `{text}`", ""]
    return out[:-1]


def java(facts):
    out = [f"// {ORIGIN}", "package io.fencepost.client;", "", "import java.util.Map;", ""]
    out += ["/** Facts that all clients share. */", "public final class Facts {", "    private Facts() {}", ""]

    def documented(about):
        lines = wrap(about.replace("&", "&amp;").replace("<", "&lt;"), COLUMNS - 10)
        if len(lines) == 1:
            return [f"    /** {lines[0]} */"]
        return ["    /**", *(f"     * {line}" for line in lines), "     */"]

    for name, value, about in facts:
        is_long = isinstance(value, int) and (name.endswith("_MS") or value >= 1 << 31)
        kind = "String" if isinstance(value, str) else "long" if is_long else "int"
        suffix = "L" if is_long else ""
        out += [*documented(about), f"    public static final {kind} {name} = {json.dumps(value)}{suffix};", ""]
    out += ["    /** The reasons of errors, and their gRPC codes. */"]
    out += ["    public static final Map<String, String> REASONS = Map.ofEntries("]
    entries = [f"            Map.entry({quoted(reason)}, {quoted(code)})" for reason, code in reasons().items()]
    out += [",\n".join(entries) + ");", ""]
    for name, about, text in guards({"postgres": unnamed, "mysql": unnamed, "sqlite": unnamed}):
        block = "\n".join(f"            {line}" for line in text.splitlines())
        out += [*documented(about), f'    public static final String {name} =\n            """\n{block}""";', ""]
    return out[:-1] + ["}"]


def rust(facts):
    out = [f"// {ORIGIN}", ""]
    out += ["//! Facts that the clients of all languages share: defaults, bounds, reasons of errors, guards.", ""]
    for name, value, about in facts:
        kind = "&str" if isinstance(value, str) else "u16" if name.endswith("_PORT") else "u32"
        if name.endswith("_MS") or isinstance(value, int) and value >= 1 << 32:
            kind = "u64"
        elif name.endswith(("_BYTES_MAX", "_NAMES_MAX")):
            kind = "usize"
        digits = f"{value:_}" if isinstance(value, int) and value >= 10_000 else json.dumps(value)
        line = f"pub const {name}: {kind} = {digits};"
        if len(line) > RUST_COLUMNS:
            # A backslash leaves out the end of the line and the indentation of the next one.
            line = " \\\n".join(wrap(line, RUST_COLUMNS - 2, subsequent_indent=" " * 4, break_long_words=False))
        out += [*comment("///", about), line]
    out += ["/// The reasons of errors, and their gRPC codes."]
    out += [f"pub const REASONS: [(&str, &str); {len(reasons())}] = ["]
    out += [f"    ({quoted(reason)}, {quoted(code)})," for reason, code in reasons().items()] + ["];"]
    for name, about, text in guards({"postgres": numbered, "mysql": unnamed, "sqlite": unnamed}):
        out += [*comment("///", about), f'pub const {name}: &str = r#"{text}"#;']
    return out


FILES = {
    "python/src/fencepost/_facts.py": python,
    "typescript/src/facts.ts": typescript,
    "go/internal/facts/facts.go": go,
    "java/src/main/java/io/fencepost/client/Facts.java": java,
    "rust/src/facts.rs": rust,
}


def main():
    listed = json.loads((CLIENTS / "facts.json").read_text())["facts"]
    facts = [(fact["name"], fact["value"], fact["about"]) for fact in listed]
    stale = []
    for name, render in FILES.items():
        path, text = CLIENTS / name, "\n".join(render(facts)) + "\n"
        if path.is_file() and path.read_text() == text:
            continue
        if "--check" in sys.argv[1:]:
            stale.append(f"clients/{name}")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if stale:
        sys.exit(f"out of date, run clients/facts/generate.py: {', '.join(stale)}")


main()
