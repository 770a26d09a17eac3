/**
 * The connection with a server: one of HTTP/2, and a new one after that has ended.
 *
 * Its socket never keeps the process alive: a process that holds a lock may end without closing its client. The client
 * itself keeps the process alive while somebody waits for one of its promises.
 */
import * as net from "node:net";
import * as tls from "node:tls";
import type { ClientHttp2Stream, OutgoingHttpHeaders } from "node:http2";
import { type Client, Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { type Address, origin } from "./address.js";
import { Failure } from "./failure.js";
import { CONNECT_TIMEOUT_MS } from "./facts.js";
import { LockService } from "./gen/fencepost/v1/lock_pb.js";
import { Http2, NoGreeting, type Pings } from "./http2.js";
import { Probes, SILENT } from "./probe.js";
import type { Security, Tls, Tokens } from "./security.js";
import { type Trouble, troubleOf } from "./trouble.js";

/**
 * A connection that is dead without notice is found within 3 s if something is asked of it, else within 15 s, and an
 * idle server is hardly disturbed.
 */
const PINGS: Pings = { interval: 10_000, timeout: 5000, unanswered: 1000 };

/** The longest answer: a page of 1,000 locks with the longest names, labels and metadata takes 5 MB. */
const ANSWER_BYTES_MAX = 16 * 1024 * 1024;

/** What a server has shown so far. */
export class Heard {
  readonly probes = new Probes();
  #isHttp2 = false;

  /** Whether it has ever spoken HTTP/2. If so, one that only ends connections does so because it stops. */
  get isHttp2(): boolean {
    return this.#isHttp2;
  }

  /** It has spoken HTTP/2. */
  greeted(): void {
    this.#isHttp2 = true;
    this.probes.forget();
  }
}

export class Connection {
  readonly address: Address;
  readonly client: Client<typeof LockService>;
  readonly #tls: Tls;
  readonly #connectTime: number;
  readonly #pings: Pings;
  readonly #heard: Heard;
  #current: Http2 | undefined;
  /** Those that have not ended: a server that drains still serves the requests of the last one. */
  readonly #all = new Set<Http2>();

  /** `heard` is shared by the connections with one server. The pings are an argument for tests only. */
  constructor(
    address: Address,
    { tls, tokens }: Security,
    heard = new Heard(),
    connectTime = CONNECT_TIMEOUT_MS,
    pings: Pings = PINGS,
  ) {
    this.address = address;
    this.#heard = heard;
    this.#tls = tls;
    this.#connectTime = connectTime;
    this.#pings = pings;
    const baseUrl = origin(address);
    const transport = createGrpcTransport({
      baseUrl,
      sessionManager: {
        authority: new URL(baseUrl).origin,
        request: (method, path, headers) => this.#request({ ...headers, ":method": method, ":path": path }),
        notifyResponseByteRead: (stream) => {
          for (const connection of this.#all) connection.read(stream);
        },
      },
      readMaxBytes: ANSWER_BYTES_MAX,
      acceptCompression: [],
      interceptors: tokens === undefined ? [] : [bearer(tokens)],
    });
    this.client = createClient(LockService, transport);
  }

  /** Connects unless it is connected, and resolves when the server has spoken. */
  async open(): Promise<Failure | undefined> {
    try {
      const connection = this.#current?.isUsable === true ? this.#current : this.#begin();
      await connection.opened;
      this.#heard.greeted();
      await connection.check(this.#connectTime);
      if (connection.isUsable) return undefined;
    } catch (error) {
      return Failure.connection(this.address.text, await this.#diagnose(error), error);
    }
    return Failure.local(`${this.address.text}: the connection has ended`, false);
  }

  async #diagnose(error: unknown): Promise<Trouble> {
    const trouble = troubleOf(error, this.#tls.hasCertificate);
    if (!(error instanceof NoGreeting) || trouble.isLasting) return trouble;
    if (error.kind === "silent") return SILENT;
    if (error.kind === "unreached") return trouble;
    const seen = await this.#heard.probes.look(this.address, () => dial(this.address, this.#tls));
    return seen === undefined || (this.#heard.isHttp2 && !seen.isLasting) ? trouble : seen;
  }

  /** A message was sent on a stream that the server answers at once. */
  answerIsDue(): void {
    this.#current?.answerIsDue();
  }

  /** A call was not answered in time: the next ones go over a new connection. Other calls may still be answered. */
  overdue(): void {
    this.#current?.retire();
  }

  /** Ends the connection with all of its calls. It connects again when it is opened again. */
  close(): void {
    for (const connection of this.#all) connection.close(new ConnectError("the connection was closed", Code.Canceled));
  }

  /** @throws the error of a file of TLS that cannot be read, say */
  #begin(): Http2 {
    const socket = quiet(dial(this.address, this.#tls));
    const ended = () => this.#all.delete(connection);
    const connection = new Http2(origin(this.address), socket, this.#connectTime, this.#pings, ended);
    this.#all.add(connection);
    this.#current = connection;
    return connection;
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- as the transport wants it
  async #request(headers: OutgoingHttpHeaders): Promise<ClientHttp2Stream> {
    if (this.#current === undefined) throw new ConnectError("there is no connection", Code.Unavailable);
    return this.#current.request(headers);
  }
}

function dial(address: Address, files: Tls): net.Socket {
  if (address.kind === "unix") return net.connect(address.path);
  const { host, port } = address;
  if (!address.tls) return net.connect({ host, port, noDelay: true });
  const socket = tls.connect({
    host,
    port,
    ALPNProtocols: ["h2"],
    ...(net.isIP(host) === 0 && { servername: host }),
    ...files.read(),
  });
  return socket.setNoDelay();
}

/** Takes the socket out of the count of what keeps the process alive, and keeps it out. */
function quiet(socket: net.Socket): net.Socket {
  socket.unref();
  socket.ref = () => socket;
  return socket;
}

function bearer(tokens: Tokens): Interceptor {
  return (next) => async (request) => {
    request.header.set("authorization", `Bearer ${await tokens.next(request.signal)}`);
    return next(request);
  };
}
