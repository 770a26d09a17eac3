/** Runs a real server for tests. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { order } from "./faults.js";
import { awaitStopped } from "./stopped.js";

/** How long a server may take to start, in milliseconds, and how often its port file is looked for. */
const START_TIMEOUT_MS = 20_000;
const POLL_MS = 10;
/** The most characters of the log that are kept. */
const LOG_MAX = 100_000;
/** The port of the API has what operators do too, so that a test can drain the server. */
const ADMIN = ["--admin-listen", "none", "--admin-service", "everywhere"];
/** The last line of the port file has this port's address. */
const FAULTS = ["--test-faults", "127.0.0.1:0"];

/** Options of a server for tests. */
export interface ServerOptions {
  /** The program. Default: the environment variable `FENCEPOST_BIN`, else `fencepost` on the `PATH`. */
  readonly binary?: string;
  /**
   * More arguments of `fencepost serve`, such as `["--ttl-min", "50ms"]`. With `["--store", "redis://127.0.0.1:6379"]`,
   * {@link Server.lose} and {@link Server.dropReply} are refused.
   */
  readonly arguments?: readonly string[];
  /** Where it listens. Default: a free port of 127.0.0.1. */
  readonly listen?: string;
}

/**
 * A real server in a process of its own, with the memory store unless the arguments name another one. It loses locks
 * and replies on demand.
 *
 * ```ts
 * await using server = await Server.start();
 * await using client = new Client({ servers: server.address });
 * const lock = await client.lock("orders/42");
 * await server.lose("orders/42"); // lock.signal aborts
 * ```
 */
export class Server implements AsyncDisposable {
  /** Where it listens, as a client takes it. */
  readonly address: string;
  /** Where it takes orders; `undefined` if it has a store that others may use. */
  readonly #faults: string | undefined;
  readonly #process: ChildProcess;
  readonly #folder: string;
  readonly #exited: Promise<unknown>;
  readonly #killed = (): void => {
    this.#process.kill("SIGKILL");
  };

  private constructor(
    address: string,
    faults: string | undefined,
    child: ChildProcess,
    folder: string,
    exited: Promise<unknown>,
  ) {
    this.address = address;
    this.#faults = faults;
    this.#process = child;
    this.#folder = folder;
    this.#exited = exited;
    process.once("exit", this.#killed);
  }

  /** Starts a server, and waits until it listens. @throws Error with the server's log if it does not start. */
  static async start(options: ServerOptions = {}): Promise<Server> {
    const { binary = process.env["FENCEPOST_BIN"] ?? "fencepost", listen = "127.0.0.1:0" } = options;
    const more = options.arguments ?? [];
    const store = storeArguments(more);
    const folder = mkdtempSync(join(tmpdir(), "fencepost-"));
    const portFile = join(folder, "port");
    const child = spawn(
      binary,
      ["serve", "--listen", listen, "--port-file", portFile, ...ADMIN, ...store, ...more],
      { stdio: ["ignore", "ignore", "pipe"] },
    );
    let log = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (log = (log + text).slice(-LOG_MAX)));
    let failed: Error | undefined;
    child.once("error", (error) => (failed = error));
    const exited = once(child, "close").catch(() => undefined);
    const deadline = Date.now() + START_TIMEOUT_MS;
    for (;;) {
      const [address, ...others] = linesOf(portFile);
      if (address !== undefined) {
        const faults = store.length > 0 ? others.at(-1) : undefined;
        return new Server(address, faults, child, folder, exited);
      }
      if (failed !== undefined || child.exitCode !== null || Date.now() > deadline) {
        child.kill("SIGKILL");
        rmSync(folder, { recursive: true, force: true });
        throw new Error(`the server ${binary} did not start: ${log}`, { cause: failed });
      }
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  /** The id of its process. */
  get pid(): number {
    return this.#process.pid ?? 0;
  }

  /** Whether its process has ended. */
  get hasExited(): boolean {
    return this.#process.exitCode !== null || this.#process.signalCode !== null;
  }

  /**
   * Revokes the lease of a lock, as an operator may: `lock.signal` of its holder aborts.
   *
   * @throws Error if nobody holds the lock
   */
  async lose(name: string): Promise<void> {
    await order(this.#orders(), "/lose", name);
  }

  /**
   * Loses the reply to the next acquire, release or renewal that succeeds, and cuts all connections: what was asked for
   * is done, and the client asks again. Each call loses one reply.
   */
  async dropReply(): Promise<void> {
    await order(this.#orders(), "/drop-reply");
  }

  /** Stops the process from running, as a machine under load does (`SIGSTOP`). On return it has stopped. */
  pause(): void {
    this.#process.kill("SIGSTOP");
    if (this.#process.pid !== undefined) awaitStopped(this.#process.pid);
  }

  /** Lets it run again. */
  resume(): void {
    this.#process.kill("SIGCONT");
  }

  /** Asks the server to drain and to end (`SIGTERM`). */
  drain(): void {
    this.#process.kill("SIGTERM");
  }

  /** Ends the server at once (`SIGKILL`). With the memory store, all locks are gone. */
  async stop(): Promise<void> {
    process.removeListener("exit", this.#killed);
    this.#process.kill("SIGKILL");
    await this.#exited;
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** The same as {@link stop}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  #orders(): string {
    if (this.#faults === undefined) throw new Error("only a server with the memory store loses locks and replies");
    return this.#faults;
  }
}

/** What the store needs beside these arguments. The program refuses to have faults with a store that others may use. */
function storeArguments(more: readonly string[]): readonly string[] {
  const store = /^--store[\n=](.*)/m.exec(more.join("\n"))?.[1];
  if (store === undefined) return ["--store", "memory:", ...FAULTS];
  return store === "memory:" ? FAULTS : [];
}

/** The lines of a file; none until it is there. The server writes it beside its path, and renames it. */
function linesOf(file: string): string[] {
  try {
    return readFileSync(file, "utf8").split("\n").slice(0, -1);
  } catch {
    return [];
  }
}
