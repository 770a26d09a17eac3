import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import test, { type TestContext } from "node:test";
import { after, connect, hold, PATIENCE_MS, start, until } from "./support/index.js";
import { Proxy } from "./support/proxy.js";

/** Runs a program in a process of its own; it has a client and prints lines. */
function run(t: TestContext, server: string, program: string): { child: ChildProcess; lines: AsyncIterator<string> } {
  const source = `
    const { Client } = require(${JSON.stringify(join(__dirname, "../src/index.js"))});
    process.on("unhandledRejection", (error) => { console.log("unhandled", error); process.exit(9); });
    const client = new Client({ servers: ${JSON.stringify(server)} });
    (async () => { ${program} })();`;
  const child = spawn(process.execPath, ["-e", source], { stdio: ["ignore", "pipe", "inherit"] });
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  after(t, () => {
    process.removeListener("exit", kill);
    kill();
    return Promise.resolve();
  });
  return { child, lines: createInterface({ input: child.stdout })[Symbol.asyncIterator]() };
}

async function exitCode(child: ChildProcess): Promise<unknown> {
  if (child.exitCode !== null) return child.exitCode;
  const [code] = (await once(child, "exit", { signal: AbortSignal.timeout(PATIENCE_MS) })) as [unknown];
  return code;
}

/**
 * The bound for a process that has nothing more to do, in milliseconds. It is far below the TTLs and the waits of the
 * programs, for which the client would keep the process alive.
 */
const EXIT_MS = 15_000;

for (const [what, program] of [
  ["a held lock", `await client.lock("a"); console.log("ready");`],
  ["a silent server", `await client.lock("a"); console.log("ready"); await new Promise((r) => setTimeout(r, 300));`],
  [
    "a release that nobody waits for",
    `const lock = await client.lock("a"); void lock.release(); console.log("ready");`,
  ],
  ["a closed client", `await client.lock("a"); await client.get("a"); await client.close(); console.log("ready");`],
  [
    "an abandoned acquire",
    `await client.lock("a"); const stop = new AbortController();
     const waiting = client.lock("a", { wait: 60000, signal: stop.signal });
     setTimeout(() => stop.abort(), 100); await waiting.catch(() => 0); console.log("ready");`,
  ],
] as const) {
  void test(`the process ends although there is ${what}`, async (t) => {
    const server = await start(t);
    const proxy = await Proxy.start(t, server.address);
    const { child, lines } = run(t, proxy.address, program);
    assert.equal((await lines.next()).value, "ready");
    if (what === "a silent server") proxy.dropAnswers();
    const ready = performance.now();
    assert.equal(await exitCode(child), 0);
    assert.ok(performance.now() - ready < EXIT_MS);
  });
}

void test("the process lives while it waits for a lock, and Ctrl-C ends the wait", async (t) => {
  const server = await start(t);
  const observer = connect(t, server);
  await hold(t, observer.lock("a"));
  const { child } = run(t, server.address, `await client.lock("a", { wait: 60000 });`);
  await until("it waits", async () => (await observer.get("a")).waiters === 1);
  child.kill("SIGINT");
  await once(child, "exit");
  assert.equal(child.signalCode, "SIGINT");
  // The server keeps the place of a broken stream for 3 s.
  await until("it has left the queue", async () => (await observer.get("a")).waiters === 0);
});

void test("a process stopped past its TTL learns that before it can write", async (t) => {
  const server = await start(t);
  const { child, lines } = run(
    t,
    server.address,
    `const lock = await client.lock("a", { ttl: 3000 });
     let told = false;
     lock.signal.addEventListener("abort", () => { told = true; });
     const timer = setInterval(() => {
       if (lock.valid()) return;
       console.log(lock.signal.reason.reason, told);
       clearInterval(timer);
     }, 1);
     console.log(lock.token);`,
  );
  const token = Number((await lines.next()).value);
  child.kill("SIGSTOP");
  const next = await connect(t, server).lock("a", { wait: 60_000, ttl: 60_000 });
  assert.ok(next.token > token);
  child.kill("SIGCONT");
  // A message of the server may be read first: it says the same.
  assert.match(String((await lines.next()).value), /^(silence|expired) true$/);
  assert.equal(await exitCode(child), 0);
});

void test("SIGTERM with the recipe of the README leaves no lock", async (t) => {
  const server = await start(t);
  const observer = connect(t, server);
  const program = `
    process.once("SIGTERM", async () => { await client.close(); process.exit(143); });
    globalThis.held = await client.lock("a", { ttl: 3600000 });
    console.log("ready"); setInterval(() => 0, 1000);`;
  const { child, lines } = run(t, server.address, program);
  assert.equal((await lines.next()).value, "ready");
  child.kill("SIGTERM");
  assert.equal(await exitCode(child), 143);
  assert.deepEqual((await observer.get("a")).holders, []);
});
