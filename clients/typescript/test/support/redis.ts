/** A real Redis on a free port. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import * as net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { after, until } from "./index.js";

export interface RunningRedis {
  readonly url: string;
  /** Stops the process from running, until it is resumed. */
  pause(): void;
  resume(): void;
}

/** Starts a Redis that ends with the test. */
export async function redis(t: TestContext): Promise<RunningRedis> {
  for (;;) {
    const port = await freePort();
    const folder = mkdtempSync(join(tmpdir(), "fencepost-redis-"));
    const more = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder];
    const program = process.env["FENCEPOST_REDIS_SERVER"] ?? "redis-server";
    const child = spawn(program, ["--port", String(port), ...more], { stdio: "ignore" });
    const ended = once(child, "close");
    const kill = () => child.kill("SIGKILL");
    process.once("exit", kill);
    after(t, async () => {
      process.removeListener("exit", kill);
      kill();
      await ended;
      rmSync(folder, { recursive: true, force: true });
    });
    await until("redis listens", async () => child.exitCode !== null || (await answers(port, folder)));
    // Redis cannot choose a free port itself, and another process may have taken this one.
    if (child.exitCode !== null) continue;
    return {
      url: `redis://127.0.0.1:${String(port)}`,
      pause: () => child.kill("SIGSTOP"),
      resume: () => child.kill("SIGCONT"),
    };
  }
}

async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as net.AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** Whether the Redis with this folder listens on the port. */
function answers(port: number, folder: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(port, "127.0.0.1", () => socket.write("CONFIG GET dir\r\n"));
    const settle = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.once("data", (data) => {
      settle(data.includes(folder));
    });
    for (const event of ["error", "close"]) {
      socket.once(event, () => {
        settle(false);
      });
    }
  });
}
