/** Streams of what happens to locks, opened again on the next server after an interruption. */
import { checkText } from "./arguments.js";
import type { Service } from "./calls.js";
import { now } from "./clock.js";
import type { Core } from "./core.js";
import { Failure } from "./failure.js";
import type { ObserveResponse, WatchResponse } from "./gen/fencepost/v1/lock_pb.js";
import { eventFrom, infoFrom, type LockInfo, type WatchEvent } from "./info.js";
import { Retries } from "./retries.js";
import { Stop } from "./stop.js";
import { afterReading } from "./timers.js";

/** Watches locks. After an interruption the events in between are reported as missed. */
export async function* watch(core: Core, prefix: string, caller?: AbortSignal): AsyncGenerator<WatchEvent, void, void> {
  checkText("prefix", prefix);
  let started = false;
  const open: Open<WatchResponse> = (service, options) => service.watch({ prefix }, options);
  for await (const message of reopened(core, caller, core.timeout, open)) {
    const event = eventFrom(message);
    if (event === undefined) continue;
    yield event.kind === "started" && started ? { ...event, kind: "missed" } : event;
    started = true;
  }
}

/** Observes a lock, for as long as it takes. After an interruption its state is told again. */
export async function* observe(core: Core, name: string, caller?: AbortSignal): AsyncGenerator<LockInfo, void, void> {
  checkText("name", name);
  const open: Open<ObserveResponse> = (service, options) => service.observe({ lockName: name }, options);
  for await (const { lock } of reopened(core, caller, Infinity, open)) if (lock !== undefined) yield infoFrom(lock);
}

type Open<T> = (service: Service, options: { signal: AbortSignal }) => AsyncIterable<T>;

/** The messages of a stream. It is opened again for at most so many milliseconds after it was interrupted. */
async function* reopened<T>(
  core: Core,
  caller: AbortSignal | undefined,
  patience: number,
  open: Open<T>,
): AsyncGenerator<T, never, void> {
  const stop = new Stop(core, caller);
  const { signal } = stop;
  try {
    let retries = new Retries(core.servers, now() + patience);
    for (;;) {
      const server = core.servers.preferred;
      const connection = core.servers.shared(server);
      let failure = await core.awake.during(() => connection.open());
      let isOpen = false;
      if (failure === undefined) {
        const ended = new AbortController();
        const options = { signal: AbortSignal.any([signal, ended.signal]) };
        const messages = open(connection.client, options)[Symbol.asyncIterator]();
        // Only its begin has a time: a server answers at once, and may say nothing more for long.
        const answered = afterReading(core.servers.answerTime, () => { ended.abort(); });
        try {
          for (;;) {
            const next = await core.awake.during(() => messages.next());
            answered();
            if (next.done === true) break;
            core.servers.answered(server);
            isOpen = true;
            yield next.value;
          }
          failure = Failure.local(`${connection.address.text}: the stream ended`, false);
        } catch (error) {
          failure = Failure.of(error, false, connection.address.text).ofStream();
          if (ended.signal.aborted) {
            failure = Failure.local(`${connection.address.text}: no answer in time`, false);
            connection.overdue();
          }
        } finally {
          answered();
          // The end of the iteration alone would leave the stream open.
          ended.abort();
          await messages.return?.().catch(() => undefined);
        }
      }
      signal.throwIfAborted();
      // A stream that was open may have been quiet for longer than retries may take: they begin now.
      if (isOpen) retries = new Retries(core.servers, now() + patience);
      const interrupted = failure;
      const final = await core.awake.during(() => retries.failed(server, interrupted, signal));
      if (final) throw final.toError();
      signal.throwIfAborted();
    }
  } finally {
    stop.end();
  }
}
