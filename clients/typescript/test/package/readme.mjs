// The code blocks of the README: `generate` writes each as a program, with what it takes for granted, and `run` runs
// the compiled programs against a real server.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { Server } from "@fencepost/client/testing";

/** For each block in order: a part of its text, the lines in front of it, and those after it. */
const BLOCKS = [
  [
    "client.using(",
    "const ship = async (name: string, token: number, signal: AbortSignal) => {};",
    "await client.close();",
  ],
  [
    "await using lock = await client.lock(",
    `import { Client } from "@fencepost/client";
     const client = new Client();
     const order = {};
     const store = { write: async (order: object, how: { token: number; signal: AbortSignal }) => {} };`,
    "await client.close();",
  ],
  [
    "tellWhenWanted: true",
    `import { Client } from "@fencepost/client";
     const client = new Client();
     let [settled, waits] = [0, Promise.resolve()];
     const settleNext = async (token: number, signal: AbortSignal) => {
       settled += 1;
       if (settled === 2) waits = client.using("batch/night", { wait: 60_000 }, () => {});
       await new Promise((resolve) => setTimeout(resolve, 10));
     };`,
    `await waits;
     if (settled < 2) throw new Error(String(settled));
     await client.close();`,
  ],
  [
    "client.usingAll(",
    `import { Client } from "@fencepost/client";
     const client = new Client();
     const tokens = new Map<string, number>();
     const store = {
       write: async (name: string, how: { token: number; signal: AbortSignal }) => { tokens.set(name, how.token); },
     };`,
    `if (tokens.size !== 2) throw new Error([...tokens.keys()].join());
     await client.close();`,
  ],
  [
    "fs/etc/hosts",
    `import { Client } from "@fencepost/client";
     const client = new Client();
     let edited = 0;
     const edit = async (token: number) => { edited = token; };`,
    `if (edited === 0) throw new Error("it was not edited");
     await client.close();`,
  ],
  [
    "client.lead(",
    `import { Client } from "@fencepost/client";
     const client = new Client();
     let elected: (token: number) => void;
     const token = new Promise<number>((resolve) => (elected = resolve));
     const settleNext = async (token: number, signal: AbortSignal) => {
       elected(token);
       await new Promise((resolve) => setTimeout(resolve, 10));
     };`,
    `const term = await token;
     const { holders } = await client.get("billing/leader");
     if (holders[0]?.token !== term) throw new Error("it does not lead");
     const reason = new Error("enough");
     shutdown.abort(reason);
     const ended: unknown = await leading.catch((error: unknown) => error);
     if (ended !== reason) throw ended;
     if ((await client.get("billing/leader")).holders.length > 0) throw new Error("it leads");
     await client.close();`,
  ],
  [
    "client.observe(",
    `import { Client } from "@fencepost/client";
     const client = new Client();
     const lock = await client.lock("billing/leader");
     const connectTo = async (address: string | undefined) => {
       if (address === "10.0.0.7") process.exit(0);
       await lock.describe({ address: "10.0.0.7" });
     };`,
    "",
  ],
  [
    "AbortSignal.timeout(5000)",
    `import { Client } from "@fencepost/client";
     const client = new Client();`,
    `if (!lock.valid()) throw new Error(String(lock));
     await lock.release();`,
  ],
  [
    "postgres.raise(",
    `import { Client } from "@fencepost/client";
     const client = new Client();
     const lock = await client.lock("orders/42");
     const queries: string[] = [];
     const pool = { query: async (text: string, values?: unknown[]) => { queries.push(text); return { rows: [1] }; } };
     const tx = pool;`,
    `if (queries.length !== 7) throw new Error(queries.join());
     await client.close();`,
  ],
  [
    "redis.write(",
    `const lock = { name: "orders/42", token: 7, grantId: "g" };
     const client = {
       eval: async (script: string, options: { keys: string[]; arguments: string[] }) => {
         if (options.keys.length !== 2 || options.arguments[2] !== "shipped") throw new Error(script);
       },
     };`,
    "",
  ],
  [
    "caFile",
    `import { Client } from "@fencepost/client";
     const readToken = () => "token";`,
    "",
  ],
  [
    "client.watch(",
    `import { Client } from "@fencepost/client";
     const client = new Client();
     const lock = await client.lock("orders/42");
     const { token } = lock;
     // The watch does not end.
     process.once("exit", (code) => { if (code !== 9) console.error("the watch ended"); });
     setTimeout(async () => {
       if (!lock.valid() || (await client.checkToken("orders/42", token)).status !== "current") process.exit(1);
       process.exit(9);
     }, 1000);`,
    "",
  ],
  [
    "SIGTERM",
    `import { Client } from "@fencepost/client";
     const client = new Client();
     const stopWork = async () => {};
     const lock = await client.lock("recipe");`,
    `process.once("exit", () => { if (lock.status !== "lost") process.exitCode = 1; });
     setInterval(() => {}, 1000);
     process.kill(process.pid, "SIGTERM");`,
  ],
  ["logger: console", `import { Client } from "@fencepost/client";`, `await (await client.lock("log")).release();`],
  [
    "Server.start()",
    `import { Client } from "@fencepost/client";`,
    `server.resume();
     const next = await client.lock("orders/42");
     if (lock.valid() || next.token !== lock.token + 1) throw new Error(String([lock, next]));`,
  ],
  [
    "new FakeLock(",
    `import assert from "node:assert/strict";
     import { type Lock, LockLost } from "@fencepost/client";
     const work = async (lock: Lock) => {
       try {
         await new Promise((_, reject) => lock.signal.addEventListener("abort", () => reject(lock.signal.reason)));
       } finally {
         await lock.release();
       }
     };`,
    "",
  ],
];

const blocks = [...readFileSync("node_modules/@fencepost/client/README.md", "utf8").matchAll(/^```ts\n(.*?)^```$/gms)];
assert.equal(blocks.length, BLOCKS.length, "each block of the README has a line here");

if (process.argv[2] === "generate") {
  mkdirSync("readme", { recursive: true });
  for (const [n, [, text]] of blocks.entries()) {
    const [part, before, after] = BLOCKS[n];
    assert.ok(text.includes(part), `block ${n} has ${part}`);
    const program = text.replace(`{ servers: "127.0.0.1:7420" }`, "");
    writeFileSync(`readme/${n}.mts`, `${before}\n${program}\n${after}\nexport {};\n`);
  }
} else {
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=test"];
  execFileSync("openssl", ["req", "-x509", ...key, "-keyout", "client.key", "-out", "client.pem"], { stdio: "ignore" });
  writeFileSync("ca.pem", readFileSync("client.pem"));
  const server = await Server.start();
  for (const [n, [, text]] of blocks.entries()) {
    const env = { ...process.env, FENCEPOST_SERVER: server.address };
    const code = (() => {
      try {
        execFileSync(process.execPath, [`built/readme/${n}.mjs`], { env, stdio: "inherit", timeout: 60_000 });
        return 0;
      } catch (error) {
        return error.status;
      }
    })();
    const expected = text.includes("client.watch(") ? 9 : text.includes("SIGTERM") ? 143 : 0;
    assert.equal(code, expected, `block ${n}:\n${text}`);
  }
  await server.stop();
}
