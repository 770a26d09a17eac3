/** Runs a real server for tests. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** How long a server may take to start, in milliseconds, and how often its port file is looked for. */
const START_TIMEOUT_MS = 20_000;
const POLL_MS = 10;
/** The most characters of the log that are kept. */
const LOG_MAX = 100_000;
/** It has one port, with what operators do too, so that a test can revoke a lease or drain the server. */
const ADMIN = ["--admin-listen", "none", "--admin-service", "everywhere"];

/** Options of a server for tests. */
export interface ServerOptions {
  /** The program. Default: the environment variable `FENCEPOST_BIN`, else `fencepost` on the `PATH`. */
  readonly binary?: string;
  /** More arguments of `fencepost serve`, such as `["--store", "redis://127.0.0.1:6379"]`. */
  readonly arguments?: readonly string[];
  /** Where it listens. Default: a free port of 127.0.0.1. */
  readonly listen?: string;
}

/**
 * A real server in a process of its own, with the memory store unless the arguments name another one.
 *
 * ```ts
 * await using server = await Server.start();
 * await using client = new Client({ servers: server.address });
 * ```
 */
export class Server implements AsyncDisposable {
  /** Where it listens, as a client takes it. */
  readonly address: string;
  readonly #process: ChildProcess;
  readonly #folder: string;
  readonly #exited: Promise<unknown>;
  readonly #killed = (): void => {
    this.#process.kill("SIGKILL");
  };

  private constructor(address: string, child: ChildProcess, folder: string, exited: Promise<unknown>) {
    this.address = address;
    this.#process = child;
    this.#folder = folder;
    this.#exited = exited;
    process.once("exit", this.#killed);
  }

  /** Starts a server, and waits until it listens. @throws Error with the server's log if it does not start. */
  static async start(options: ServerOptions = {}): Promise<Server> {
    const { binary = process.env["FENCEPOST_BIN"] ?? "fencepost", listen = "127.0.0.1:0" } = options;
    const folder = mkdtempSync(join(tmpdir(), "fencepost-"));
    const portFile = join(folder, "port");
    const child = spawn(
      binary,
      ["serve", "--listen", listen, "--port-file", portFile, ...ADMIN, ...(options.arguments ?? [])],
      { stdio: ["ignore", "ignore", "pipe"] },
    );
    let log = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (log = (log + text).slice(-LOG_MAX)));
    let failed: Error | undefined;
    child.once("error", (error) => (failed = error));
    const exited = once(child, "close").catch(() => undefined);
    const deadline = Date.now() + START_TIMEOUT_MS;
    for (;;) {
      const address = firstLine(portFile);
      if (address !== undefined) return new Server(address, child, folder, exited);
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

  /** Stops the process from running, as a machine under load does (`SIGSTOP`). */
  pause(): void {
    this.#process.kill("SIGSTOP");
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
}

/** The first line of a file, once it is there as a whole. */
function firstLine(file: string): string | undefined {
  try {
    const [line, ...rest] = readFileSync(file, "utf8").split("\n");
    return rest.length > 0 ? line : undefined;
  } catch {
    return undefined;
  }
}
