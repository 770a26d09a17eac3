import assert from "node:assert/strict";
import test from "node:test";
import { addresses, isLocal, origin, parse } from "../src/address.js";

void test("addresses as people write them", () => {
  for (const [text, shown] of [
    ["127.0.0.1:7421", "127.0.0.1:7421"],
    ["my_service-1:65535", "my_service-1:65535"],
    ["[fd00::2]", "[fd00::2]:7420"],
    ["localhost", "localhost:7420"],
    [" http://10.0.0.1/ ", "10.0.0.1:7420"],
    ["HTTPS://locks.internal", "https://locks.internal:7420"],
    ["unix:/run/f.sock", "unix:/run/f.sock"],
    ["unix:///run/f.sock", "unix:/run/f.sock"],
  ] as const) {
    assert.equal(parse(text).text, shown);
  }
  assert.equal(origin(parse("https://[::1]:1")), "https://localhost:1");
  assert.equal(origin(parse("unix:/a")), "http://localhost");
  assert.ok(isLocal(parse("127.1.2.3")) && isLocal(parse("unix:/a")) && !isLocal(parse("127.example.com")));
});

void test("what is no address says which rule it breaks", () => {
  for (const [text, rule] of [
    ["ftp://a", /the scheme must be/],
    ["http://", /it is empty/],
    ["u:secret@host", /a user or a password/],
    ["host/path", /nothing may follow/],
    ["::1", /needs brackets/],
    ["[::1", /needs brackets/],
    ["[1.2.3.4]:5", /needs brackets/],
    [":7420", /the host is missing/],
    ["999.1.1.1", /the host must be/],
    ["a b", /the host must be/],
    ["host:0", /the port must be/],
    ["host:65536", /the port must be/],
    ["host:", /the port must be/],
    ["unix:relative", /an absolute path/],
    ["unix://", /an absolute path/],
  ] as const) {
    assert.throws(() => parse(text), { name: "TypeError", message: rule }, text);
  }
  assert.throws(() => parse("u:secret@host"), (error: Error) => !error.message.includes("secret"));
});

void test("servers come from the options, the environment, or the default", (t) => {
  const before = process.env["FENCEPOST_SERVER"];
  t.after(() => {
    if (before === undefined) delete process.env["FENCEPOST_SERVER"];
    else process.env["FENCEPOST_SERVER"] = before;
  });
  const shown = (servers?: string | string[]) => addresses(servers).map(({ text }) => text);
  delete process.env["FENCEPOST_SERVER"];
  assert.deepEqual(shown(), ["127.0.0.1:7420"]);
  process.env["FENCEPOST_SERVER"] = "a:1, https://b:2,";
  assert.deepEqual(shown(), ["a:1", "https://b:2"]);
  assert.deepEqual(shown("c"), ["c:7420"]);
  assert.deepEqual(shown(["c", "d:3,e"]), ["c:7420", "d:3", "e:7420"]);
});
