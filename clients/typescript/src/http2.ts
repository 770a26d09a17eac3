/**
 * One HTTP/2 connection.
 *
 * It counts as open when the server has spoken: what only accepts connections may hang. Node, and with it the manager
 * of connections that the transport brings along, counts it as open as soon as the socket is. While requests are open
 * and the server is quiet, pings check it; soon, if an answer is due. A connection that does not answer a ping ends
 * with all of its requests: what is repeated goes over a new one.
 */
import * as http2 from "node:http2";
import type { Socket } from "node:net";
import { Code, ConnectError } from "@connectrpc/connect";
import { now } from "./clock.js";
import { CONNECT_TIMEOUT_MS } from "./facts.js";
import { after, afterReading } from "./timers.js";

/** The connection ended before the server had said anything. */
export class NoGreeting extends Error {
  /** Whether no connection was established, it was and nothing came in time, or it ended before. */
  readonly kind: "unreached" | "silent" | "ended";

  constructor(kind: NoGreeting["kind"], cause: unknown) {
    super(kind === "unreached" ? "no connection" : "the server said nothing on the connection", { cause });
    this.kind = kind;
  }
}

/** When pings are sent, and how long their answers may take, in milliseconds. */
export interface Pings {
  /** For how long a connection with open requests may be quiet. */
  readonly interval: number;
  readonly timeout: number;
  /** For how long it may be quiet while something was sent that is answered at once. */
  readonly unanswered: number;
}

export class Http2 {
  /** Resolves when the server has spoken. Rejects with {@link NoGreeting} if the connection ends before. */
  readonly opened: Promise<void>;
  readonly #session: http2.ClientHttp2Session;
  readonly #pings: Pings;
  /** Told that it has ended, and why. */
  readonly #ended: (error: unknown) => void;
  #heardAt = now();
  #requests = 0;
  #timer: NodeJS.Timeout | undefined;
  #pinging: Promise<void> | undefined;
  /** When the first message was sent that has been followed by no sign of the server. */
  #unansweredSince: number | undefined;
  #due: NodeJS.Timeout | undefined;

  constructor(origin: string, socket: Socket, connectTime: number, pings: Pings, ended: () => void) {
    this.#pings = pings;
    const session = http2.connect(origin, { createConnection: () => socket });
    this.#session = session;
    let [isReached, isGivenUp] = [false, false];
    const late = after(connectTime, () => {
      isGivenUp = true;
      this.close(new Error(`no connection within ${seconds(connectTime)}`));
    });
    const { promise, resolve, reject } = settleable();
    this.opened = promise;
    this.#ended = (error) => {
      clearTimeout(late);
      reject(new NoGreeting(isReached ? (isGivenUp ? "silent" : "ended") : "unreached", error));
      ended();
    };
    socket.once("connect", () => (isReached = true));
    session.once("remoteSettings", () => {
      clearTimeout(late);
      this.#heard();
      resolve();
    });
    // They stay until the end: an error without a listener would end the process.
    session.on("error", this.#ended);
    socket.on("error", (error) => {
      // After an alert of TLS the session ends neither itself nor the socket.
      this.#ended(error);
      socket.destroy();
    });
    session.once("close", () => {
      this.#ended(new Error("the server closed the connection"));
    });
  }

  /** Whether it takes requests. */
  get isUsable(): boolean {
    return !this.#session.closed && !this.#session.destroyed;
  }

  /** @throws ConnectError if it takes no requests */
  request(headers: http2.OutgoingHttpHeaders): http2.ClientHttp2Stream {
    if (!this.isUsable) throw new ConnectError("the connection has ended", Code.Unavailable);
    const stream = this.#session.request(headers);
    this.#requests += 1;
    stream.once("response", () => {
      this.#heard();
    });
    stream.once("close", () => (this.#requests -= 1));
    this.answerIsDue();
    this.#watch();
    return stream;
  }

  /** A message was sent that the server answers at once. */
  answerIsDue(): void {
    this.#unansweredSince ??= now();
    this.#watchAnswer();
  }

  /** Something was read from a stream, which may be one of this connection. */
  read(stream: http2.ClientHttp2Stream): void {
    if (stream.session === this.#session) this.#heard();
  }

  /** Checks that the server is there, unless it was heard lately. Without an answer in time the connection ends. */
  async check(timeout: number): Promise<void> {
    if (this.#session.destroyed || now() - this.#heardAt < this.#pings.interval) return;
    await this.#ping(timeout);
  }

  /** Takes no further requests, and ends with the last one. */
  retire(): void {
    this.#session.close();
  }

  /** Ends it together with its requests, which fail with the error. */
  close(error: Error): void {
    this.#ended(error);
    this.#session.destroy(error, http2.constants.NGHTTP2_CANCEL);
  }

  #heard(): void {
    this.#heardAt = now();
    this.#unansweredSince = undefined;
  }

  #watchAnswer(): void {
    if (this.#due !== undefined || this.#unansweredSince === undefined || this.#session.destroyed) return;
    this.#due = after(this.#unansweredSince + this.#pings.unanswered - now(), () => {
      this.#due = undefined;
      if (this.#session.destroyed) return;
      const since = this.#unansweredSince;
      if (since !== undefined && now() - since >= this.#pings.unanswered) {
        void this.#ping(Math.min(this.#pings.timeout, CONNECT_TIMEOUT_MS));
      } else {
        this.#watchAnswer();
      }
    });
  }

  #watch(): void {
    if (this.#timer !== undefined || this.#requests === 0 || this.#session.destroyed) return;
    this.#timer = after(this.#heardAt + this.#pings.interval - now(), () => {
      if (this.#requests === 0) {
        this.#timer = undefined;
        return;
      }
      void this.check(this.#pings.timeout).then(() => {
        this.#timer = undefined;
        this.#watch();
      });
    });
  }

  /**
   * Resolves when a ping is answered or the connection has ended. Only one ping is in flight, but each caller has its
   * own timeout: a call must not wait as long as a check in the background does.
   */
  #ping(timeout: number): Promise<void> {
    const cancel = afterReading(timeout, () => {
      const text = `it fell silent: no answer to a ping within ${seconds(timeout)}`;
      this.close(new ConnectError(text, Code.Unavailable));
    });
    this.#pinging ??= new Promise<void>((resolve) => {
      this.#session.ping((error: Error | null) => {
        this.#pinging = undefined;
        if (error === null) this.#heard();
        else this.close(error);
        resolve();
      });
    });
    return this.#pinging.then(cancel);
  }
}

/** A promise whose rejection nobody need handle. */
function settleable() {
  let [resolve, reject] = [() => undefined as unknown, (_: unknown) => undefined as unknown];
  const promise = new Promise<void>((...both) => ([resolve, reject] = both));
  promise.catch(() => undefined);
  return { promise, resolve, reject };
}

function seconds(ms: number): string {
  return `${String(ms / 1000)} s`;
}
