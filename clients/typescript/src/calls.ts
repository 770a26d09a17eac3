/** Calls outside of a session, repeated on the next server while they fail. */
import { type Client, Code } from "@connectrpc/connect";
import { checkText } from "./arguments.js";
import { now } from "./clock.js";
import type { Core } from "./core.js";
import { Failure } from "./failure.js";
import type { LockService } from "./gen/fencepost/v1/lock_pb.js";
import { infoFrom, type LockInfo, type LockWaiter, waiterFrom } from "./info.js";
import { Retries } from "./retries.js";
import { Stop } from "./stop.js";

export type Service = Client<typeof LockService>;

/** Makes one call on a server. */
export type Send<T> = (service: Service, options: { signal: AbortSignal; timeoutMs: number }) => Promise<T>;

/** One call, with repeats. */
export async function call<T>(core: Core, caller: AbortSignal | undefined, send: Send<T>): Promise<T> {
  const stop = new Stop(core, caller);
  const { signal } = stop;
  const retries = new Retries(core.servers, now() + core.timeout);
  try {
    return await core.awake.during(async () => {
      for (;;) {
        signal.throwIfAborted();
        const server = core.servers.preferred;
        const connection = core.servers.shared(server);
        let failure = await connection.open();
        if (failure === undefined) {
          try {
            const answer = await send(connection.client, { signal, timeoutMs: core.servers.answerTime });
            core.servers.answered(server);
            return answer;
          } catch (error) {
            failure = Failure.of(error, true, connection.address.text);
            if (failure.code === Code.DeadlineExceeded) connection.overdue();
          }
        }
        signal.throwIfAborted();
        const final = await retries.failed(server, failure, signal);
        if (final) throw final.toError();
      }
    });
  } finally {
    stop.end();
  }
}

/** Lists locks, page by page. */
export async function* list(core: Core, prefix: string, caller?: AbortSignal): AsyncGenerator<LockInfo, void, void> {
  checkText("prefix", prefix);
  let pageToken = "";
  do {
    const request = { prefix, pageToken };
    const page = await call(core, caller, (service, options) => service.list(request, options));
    for (const lock of page.locks) yield infoFrom(lock);
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
}

/** Lists the requests that wait for a lock, page by page. */
export async function* waiters(core: Core, name: string, caller?: AbortSignal): AsyncGenerator<LockWaiter, void, void> {
  checkText("name", name);
  let pageToken = "";
  do {
    const request = { lockName: name, pageToken };
    const page = await call(core, caller, (service, options) => service.listWaiters(request, options));
    for (const waiter of page.waiters) yield waiterFrom(waiter);
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
}
