import assert from "node:assert/strict";
import { constants } from "node:os";
import test from "node:test";
import { Code, ConnectError } from "@connectrpc/connect";
import { parse } from "../src/address.js";
import * as facts from "../src/facts.js";
import { Failure } from "../src/failure.js";
import { now } from "../src/clock.js";
import { OutcomeUnknown, Refused, Unavailable } from "../src/index.js";
import { Retries } from "../src/retries.js";
import { Tls } from "../src/security.js";
import { Servers } from "../src/servers.js";
import { Awake, sleep } from "../src/timers.js";
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

const REFUSED = facts.TLS_CLIENT_CERTIFICATE_REFUSED;
const UNTRUSTED = wrapped("SELF_SIGNED_CERT_IN_CHAIN", "self-signed certificate in certificate chain");
const RESET = wrapped("ECONNRESET", "read ECONNRESET");
/** The timers of the client do not keep the process alive. */
const awake = new Awake();
const overdue = (sent: boolean) => new Failure(Code.DeadlineExceeded, "not in time", sent);

void test("what is wrong with a connection, and whether it stays", () => {
  assert.deepEqual(troubleOf(UNTRUSTED), { text: facts.TLS_UNTRUSTED, isLasting: true });
  const refused = (text: string) => ({ text, isLasting: true });
  for (const [code, hasCertificate, text] of [
    ["ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED", false, facts.TLS_CLIENT_CERTIFICATE_MISSING],
    ["ERR_SSL_TLSV1_ALERT_UNKNOWN_CA", true, `${REFUSED} (TLS alert unknown ca)`],
    ["ERR_SSL_SSL/TLS_ALERT_BAD_CERTIFICATE", true, `${REFUSED} (TLS alert bad certificate)`],
    ["ERR_SSL_SSL/TLS_ALERT_ACCESS_DENIED", false, "the TLS handshake failed: the server sent the alert access denied"],
    ["CERT_HAS_EXPIRED", true, facts.TLS_EXPIRED],
    ["ERR_SSL_WRONG_VERSION_NUMBER", true, facts.TLS_NOT_TLS],
    ["INVALID_PURPOSE", true, "the server's certificate cannot be used: for developers"],
  ] as const) {
    assert.deepEqual(troubleOf(wrapped(code, "for developers", { reason: "any" }), hasCertificate), refused(text));
  }
  const named = (cert: object) => wrapped("ERR_TLS_CERT_ALTNAME_INVALID", "for developers", { cert });
  assert.equal(troubleOf(named({ subjectaltname: "DNS:a.test, IP Address:10.0.0.1" })).text,
    `${facts.TLS_WRONG_NAME}, only for a.test, 10.0.0.1`);
  assert.equal(troubleOf(named({})).text, `${facts.TLS_WRONG_NAME}, nor for any other`);
  const errno = { errno: constants.errno.ECONNRESET * -1 };
  const reset = { text: "connection reset by peer", isLasting: false };
  assert.deepEqual(troubleOf(wrapped("ECONNRESET", "read", errno)), reset);
  for (const code of ["ERR_SSL_SSLV3_ALERT_BAD_RECORD_MAC", "ERR_SSL_TLSV1_ALERT_INTERNAL_ERROR"]) {
    const broken = { text: "the connection failed: it broke", isLasting: false };
    assert.deepEqual(troubleOf(wrapped(code, "it broke")), broken);
  }
  assert.deepEqual(troubleOf(undefined), { text: "the connection failed", isLasting: false });
});

void test("a request that a server refused in the handshake was not received", () => {
  const failure = Failure.of(UNTRUSTED, true, "a:1");
  assert.deepEqual([failure.sent, failure.isLasting, failure.isOutcomeUnknown], [false, true, false]);
  assert.ok(Failure.of(RESET, true, "a:1").isOutcomeUnknown);
});

void test("retries end at once when no server would ever accept a connection", () => awake.during(async () => {
  const lasting = (server: number) => Failure.connection(`127.0.0.1:${String(server)}`, troubleOf(UNTRUSTED));
  const until = now() + 60_000;
  const both = servers(2);
  const retries = new Retries(both, until);
  assert.equal(await retries.failed(0, lasting(0)), undefined);
  assert.equal(both.preferred, 1);
  assert.equal(await retries.failed(1, Failure.connection("127.0.0.1:1", troubleOf(RESET))), undefined);
  assert.equal(await retries.failed(0, lasting(0)), undefined);
  const all = /: 127.0.0.1:0: .* not trusted.*; 127.0.0.1:1: .* not trusted/;
  const final = (await retries.failed(1, lasting(1)))?.toError() ?? assert.fail();
  assert.match(final.message, all);
  assert.ok(final instanceof Unavailable && final.isLasting);
  // One of two servers can be called later.
  const over = new Retries(both, now() + 1000);
  assert.equal(await over.failed(1, Failure.connection("127.0.0.1:1", troubleOf(RESET))), undefined);
  const late = new Failure(Code.Unavailable, "busy", false, { retryDelay: 60_000, isLasting: true });
  const mixed = (await over.failed(0, late))?.toError();
  assert.ok(mixed instanceof Unavailable && !mixed.isLasting);
  // Nobody waits: the certificates may be changed until then.
  const patient = new Retries(servers(1), until, "nobody");
  assert.equal(await patient.failed(0, lasting(0)), undefined);
}));

void test("why connections fail says more than that time is over", async () => {
  const one = servers(1);
  const over = () => new Retries(one, now());
  const late = "127.0.0.1:1: it did not answer before the time of the call was over";
  assert.equal((await over().failed(0, overdue(false)))?.message, late);
  one.failed(0, Failure.connection("a:1", troubleOf(RESET)));
  assert.equal((await over().failed(0, overdue(false)))?.message, "a:1: the connection failed: read ECONNRESET");
  assert.equal((await over().failed(0, overdue(true)))?.message, "not in time", "the request may have arrived");
  one.answered(0);
  assert.equal((await over().failed(0, overdue(false)))?.message, late, "it has answered since");
});

void test("a server that did nothing leaves no unknown outcome, unless an earlier transmission does", async () => {
  const said = (reason: string) => new Failure(Code.Unavailable, "no", true, { reason });
  for (const reason of ["STORE_UNAVAILABLE", "STORE_OVERLOADED", "TOO_LATE", "REQUEST_TOO_SLOW", "DRAINING"]) {
    assert.equal(facts.REASONS[reason], "UNAVAILABLE");
    const error = said(reason).toError();
    assert.ok(error instanceof Unavailable && !(error instanceof Refused));
    assert.deepEqual([error.message, error.reason], ["no", reason]);
    assert.ok(said(reason).afterSending(true).toError() instanceof OutcomeUnknown);
  }
  assert.ok(said("OUTCOME_UNKNOWN").toError() instanceof OutcomeUnknown);
  // One server drains, and the other one cannot be reached: nothing was done.
  const both = servers(2);
  const retries = new Retries(both, now() + 60_000);
  assert.equal(await awake.during(() => retries.failed(0, said("DRAINING"))), undefined);
  const over = new Retries(both, now());
  const unreached = Failure.connection("b:2", troubleOf(RESET));
  const alone = (await over.failed(1, unreached))?.toError();
  assert.ok(alone instanceof Unavailable && alone.reason === undefined);
  assert.equal(alone.message, "no server could be reached: b:2: the connection failed: read ECONNRESET");
  const joined = Failure.ofAll([unreached, said("DRAINING")], unreached).toError();
  assert.ok(joined instanceof Unavailable && joined.reason === "DRAINING");
  assert.equal(joined.message, "no; b:2: the connection failed: read ECONNRESET");
});

void test("when the last try got no answer, the answer to an earlier one is told, and is not the outcome", async () => {
  const away = new Failure(Code.Unavailable, "Redis is away", true, { reason: "STORE_UNAVAILABLE" });
  const told = "the last answer was UNAVAILABLE (STORE_UNAVAILABLE): Redis is away";
  const ended = async (last: Failure) => {
    const until = now() + 200;
    const retries = new Retries(servers(1), until);
    assert.equal(await awake.during(() => retries.failed(0, away)), undefined);
    await awake.during(() => sleep(Math.max(until - now(), 0)));
    return (await retries.failed(0, last))?.toError();
  };
  const unknown = await ended(overdue(true));
  assert.ok(unknown instanceof OutcomeUnknown);
  assert.equal(unknown.message, `outcome unknown: not in time; ${told}`);
  assert.ok(unknown.cause instanceof Unavailable && unknown.cause.reason === "STORE_UNAVAILABLE");
  const unreached = await ended(Failure.connection("a:1", troubleOf(RESET)));
  assert.ok(unreached instanceof Unavailable && unreached.reason === undefined);
  assert.equal(unreached.message, `no server could be reached: a:1: the connection failed: read ECONNRESET; ${told}`);
  assert.ok(unreached.cause instanceof Unavailable);
  // A later answer is the one that counts, and it is told once.
  const answered = await ended(away);
  assert.ok(answered instanceof Unavailable && answered.message === "Redis is away");
});
