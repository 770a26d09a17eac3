/** Calls that change nothing, repeated on the next server while they fail. */
import { type Client, Code } from "@connectrpc/connect";
import { checkText } from "./arguments.js";
import { now } from "./clock.js";
import type { Core } from "./core.js";
import { Failure } from "./failure.js";
import type { LockService } from "./gen/fencepost/v1/lock_pb.js";
import { eventFrom, infoFrom, type LockInfo, type WatchEvent } from "./info.js";
import { ANSWER_TIMEOUT_MS } from "./operation.js";
import { Retries } from "./retries.js";
import { Stop } from "./stop.js";

type Service = Client<typeof LockService>;

/** One call, with repeats. */
export async function call<T>(
  core: Core,
  caller: AbortSignal | undefined,
  send: (service: Service, options: { signal: AbortSignal; timeoutMs: number }) => Promise<T>,
): Promise<T> {
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
            const answer = await send(connection.client, { signal, timeoutMs: ANSWER_TIMEOUT_MS });
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

/** Watches locks. After an interruption the events in between are reported as missed. */
export async function* watch(core: Core, prefix: string, caller?: AbortSignal): AsyncGenerator<WatchEvent, void, void> {
  checkText("prefix", prefix);
  const stop = new Stop(core, caller);
  const { signal } = stop;
  try {
    let started = false;
    let retries = new Retries(core.servers, now() + core.timeout);
    for (;;) {
      const server = core.servers.preferred;
      const connection = core.servers.shared(server);
      let failure = await core.awake.during(() => connection.open());
      let isOpen = false;
      if (failure === undefined) {
        const events = connection.client.watch({ prefix }, { signal })[Symbol.asyncIterator]();
        try {
          for (;;) {
            const next = await core.awake.during(() => events.next());
            if (next.done === true) break;
            core.servers.answered(server);
            isOpen = true;
            const event = eventFrom(next.value);
            if (event === undefined) continue;
            yield event.kind === "started" && started ? { ...event, kind: "missed" } : event;
            started = true;
          }
          failure = Failure.local(`${connection.address.text}: the watch ended`, false);
        } catch (error) {
          failure = Failure.of(error, false, connection.address.text);
        } finally {
          await events.return?.().catch(() => undefined);
        }
      }
      signal.throwIfAborted();
      // A stream that was open may have been quiet for longer than retries may take: they begin now.
      if (isOpen) retries = new Retries(core.servers, now() + core.timeout);
      const interrupted = failure;
      const final = await core.awake.during(() => retries.failed(server, interrupted, signal));
      if (final) throw final.toError();
      signal.throwIfAborted();
    }
  } finally {
    stop.end();
  }
}
