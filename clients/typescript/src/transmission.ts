/**
 * One transmission of an acquire: an operation of the session, or a call of its own once the session had no room for
 * another lease. The keeper renews the lease either way.
 */
import { Code } from "@connectrpc/connect";
import { now } from "./clock.js";
import type { Core } from "./core.js";
import { Failure } from "./failure.js";
import { type AcquireRequest, AcquireResponse_Outcome as Outcome } from "./gen/fencepost/v1/lock_pb.js";
import { Lease } from "./lease.js";
import { ANSWER_TIMEOUT_MS, type Answered, Operation, type OperationLimits } from "./operation.js";

export interface Transmission {
  readonly server: number;
  /** Never rejects. */
  readonly outcome: Promise<Answered | Failure>;
  /** Withdraws the request. The outcome still arrives, soon: a grant, if that came first. */
  cancel(): void;
}

export interface TransmissionOptions extends Omit<OperationLimits, "answer"> {
  /** Whether to make a call of its own. */
  readonly byCall: boolean;
  readonly onWaiting?: ((ahead: number) => void) | undefined;
}

export function transmit(core: Core, request: AcquireRequest, options: TransmissionOptions): Transmission {
  if (options.byCall) {
    const server = core.servers.preferred;
    const stop = new AbortController();
    const outcome = call(core, server, request, options.wait, stop.signal);
    return { server, outcome, cancel: () => { stop.abort(); } };
  }
  const session = core.keeper.session();
  const limits = { ...options, answer: core.servers.answerTime };
  const operation = new Operation({ case: "acquire", value: request }, limits, options.onWaiting);
  session.start(operation);
  return { server: session.server, outcome: operation.outcome, cancel: () => { operation.cancel(); } };
}

async function call(
  core: Core,
  server: number,
  request: AcquireRequest,
  wait: number,
  signal: AbortSignal,
): Promise<Answered | Failure> {
  const connection = core.servers.shared(server);
  const refused = await connection.open();
  if (refused) return refused;
  if (signal.aborted) return new Failure(Code.Canceled, "the call was withdrawn before it was sent", false);
  const sent = now();
  const timeoutMs = wait > 0 ? wait + ANSWER_TIMEOUT_MS : core.servers.answerTime;
  try {
    const value = await connection.client.acquire(request, { signal, timeoutMs });
    const read = now();
    core.servers.answered(server);
    const granted = value.outcome === Outcome.ACQUIRED ? value.lease : undefined;
    const lease = granted && new Lease(granted, value, request, sent, read);
    return { sent, read, answer: { case: "acquire", value }, lease };
  } catch (error) {
    const failure = Failure.of(error, true, connection.address.text);
    if (failure.code === Code.DeadlineExceeded) connection.overdue();
    return failure;
  }
}
