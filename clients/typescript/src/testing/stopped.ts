/** Waits until a process that was sent SIGSTOP has stopped. */
import { readdirSync, readFileSync } from "node:fs";

/** How long a process may take to stop on a machine under load, in milliseconds, and how often it is looked at. */
const STOP_MAX_MS = 5_000;
const LOOK_MS = 1;

/**
 * Returns when no thread of the process runs any more: a signal is sent before it takes effect, and the process may
 * answer once more in between. Returns at once where the system does not tell (no `/proc`).
 */
export function awaitStopped(pid: number): void {
  const nobody = new Int32Array(new SharedArrayBuffer(4));
  const until = Date.now() + STOP_MAX_MS;
  while (Date.now() < until && isRunning(pid)) Atomics.wait(nobody, 0, 0, LOOK_MS);
}

function isRunning(pid: number): boolean {
  const threads = `/proc/${String(pid)}/task`;
  try {
    // The name of the program is in parentheses, and may have any characters.
    const state = (thread: string): string | undefined =>
      /.*\) (\S)/s.exec(readFileSync(`${threads}/${thread}/stat`, "latin1"))?.[1];
    return readdirSync(threads).some((thread) => !["T", "t"].includes(state(thread) ?? "T"));
  } catch {
    return false;
  }
}
