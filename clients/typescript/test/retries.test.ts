import assert from "node:assert/strict";
import test from "node:test";
import { Code, ConnectError } from "@connectrpc/connect";
import { parse } from "../src/address.js";
import { Failure } from "../src/failure.js";
import { now } from "../src/clock.js";
import { Retries } from "../src/retries.js";
import { Tls } from "../src/security.js";
import { Servers } from "../src/servers.js";
import { Awake } from "../src/timers.js";
import { troubleOf } from "../src/trouble.js";

function servers(count: number): Servers {
  const addresses = Array.from({ length: count }, (_, n) => parse(`127.0.0.1:${String(n + 1)}`));
  return new Servers(addresses, { tls: new Tls(), tokens: undefined });
}

/** As connect and Node wrap the error of a connection. */
function wrapped(code: string, message: string, more: object = {}): ConnectError {
  const cause = Object.assign(new Error(message), { code, ...more });
  return new ConnectError(message, Code.Internal, undefined, undefined, cause);
}

const UNTRUSTED = wrapped("SELF_SIGNED_CERT_IN_CHAIN", "self-signed certificate in certificate chain");
const RESET = wrapped("ECONNRESET", "read ECONNRESET");
/** The timers of the client do not keep the process alive. */
const awake = new Awake();
const overdue = (sent: boolean) => new Failure(Code.DeadlineExceeded, "not in time", sent);

void test("what is wrong with a connection, and whether it stays", () => {
  assert.deepEqual(troubleOf(UNTRUSTED), {
    text: "the server's certificate is not accepted: self-signed certificate in certificate chain",
    isLasting: true,
  });
  for (const [code, reason, text] of [
    ["ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED", "tlsv13 alert certificate required", "certificate required"],
    ["ERR_SSL_TLSV1_ALERT_UNKNOWN_CA", "tlsv1 alert unknown ca", "unknown ca"],
    ["ERR_SSL_SSL/TLS_ALERT_BAD_CERTIFICATE", "ssl/tls alert bad certificate", "bad certificate"],
  ] as const) {
    const expected = { text: `the server refuses TLS with this client: ${text}`, isLasting: true };
    assert.deepEqual(troubleOf(wrapped(code, "for developers", { reason })), expected);
  }
  for (const code of ["ECONNRESET", "ERR_SSL_SSLV3_ALERT_BAD_RECORD_MAC", "ERR_SSL_TLSV1_ALERT_INTERNAL_ERROR"]) {
    assert.deepEqual(troubleOf(wrapped(code, "it broke")), { text: "it broke", isLasting: false }, code);
  }
  assert.deepEqual(troubleOf(undefined), { text: "the connection failed", isLasting: false });
});

void test("a request that a server refused in the handshake was not received", () => {
  const failure = Failure.of(UNTRUSTED, true, "a:1");
  assert.deepEqual([failure.sent, failure.isLasting, failure.isOutcomeUnknown], [false, true, false]);
  assert.ok(Failure.of(RESET, true, "a:1").isOutcomeUnknown);
});

void test("retries end at once when no server would ever accept a connection", () => awake.during(async () => {
  const lasting = (server: number) => Failure.connection(`127.0.0.1:${String(server)}`, UNTRUSTED);
  const until = now() + 60_000;
  const both = servers(2);
  const retries = new Retries(both, until);
  assert.equal(await retries.failed(0, lasting(0)), undefined);
  assert.equal(both.preferred, 1);
  assert.equal(await retries.failed(1, Failure.connection("127.0.0.1:1", RESET)), undefined);
  assert.equal(await retries.failed(0, lasting(0)), undefined);
  assert.match((await retries.failed(1, lasting(1)))?.message ?? "", /127.0.0.1:1: .* not accepted/);
  // Nobody waits: the certificates may be changed until then.
  const patient = new Retries(servers(1), until, "nobody");
  assert.equal(await patient.failed(0, lasting(0)), undefined);
}));

void test("why connections fail says more than that time is over", async () => {
  const one = servers(1);
  const over = () => new Retries(one, now());
  assert.equal((await over().failed(0, overdue(false)))?.message, "not in time");
  one.failed(0, Failure.connection("a:1", RESET));
  assert.equal((await over().failed(0, overdue(false)))?.message, "a:1: read ECONNRESET");
  assert.equal((await over().failed(0, overdue(true)))?.message, "not in time", "the request may have arrived");
  one.answered(0);
  assert.equal((await over().failed(0, overdue(false)))?.message, "not in time", "it has answered since");
});
