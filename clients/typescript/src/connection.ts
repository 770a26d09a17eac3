/**
 * One HTTP/2 connection with a server.
 *
 * Its socket never keeps the process alive: a process that holds a lock may end without closing its client. The client
 * itself keeps the process alive while somebody waits for one of its promises.
 */
import * as net from "node:net";
import * as tls from "node:tls";
import type { ClientHttp2Session, ClientHttp2Stream } from "node:http2";
import { type Client, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { type Address, origin } from "./address.js";
import { Failure } from "./failure.js";
import { CONNECT_TIMEOUT_MS } from "./facts.js";
import { LockService } from "./gen/fencepost/v1/lock_pb.js";
import type { Security, Tls, Tokens } from "./security.js";
import { within } from "./timers.js";

/** The interval of pings while a stream is open, and how long an answer to one may take. */
const PINGS = { pingIntervalMs: 10_000, pingTimeoutMs: 5000 };

/** The longest answer: a page of 1,000 locks with the longest names, labels and metadata takes 5 MB. */
const ANSWER_BYTES_MAX = 16 * 1024 * 1024;

export class Connection {
  readonly address: Address;
  readonly client: Client<typeof LockService>;
  readonly #manager: Http2SessionManager;
  /** Why the last connection could not be begun: a file of TLS cannot be read, say. */
  #unbegun: unknown;

  /** The pings are an argument for tests only. */
  constructor(address: Address, { tls, tokens }: Security, pings: typeof PINGS = PINGS) {
    this.address = address;
    const baseUrl = origin(address);
    const createConnection = () => {
      this.#unbegun = undefined;
      try {
        return quiet(dial(address, tls));
      } catch (error) {
        this.#unbegun = error;
        throw error;
      }
    };
    this.#manager = new Manager(baseUrl, pings, { createConnection });
    const transport = createGrpcTransport({
      baseUrl,
      sessionManager: this.#manager,
      readMaxBytes: ANSWER_BYTES_MAX,
      acceptCompression: [],
      interceptors: tokens === undefined ? [] : [bearer(tokens)],
    });
    this.client = createClient(LockService, transport);
  }

  /** Connects unless it is connected. */
  async open(): Promise<Failure | undefined> {
    const state = await within(this.#manager.connect(), CONNECT_TIMEOUT_MS);
    if (state !== undefined && state !== "error") return undefined;
    if (state === "error") return Failure.connection(this.address.text, this.#unbegun ?? this.#manager.error());
    this.close();
    return Failure.local(`${this.address.text}: no connection in time`, false);
  }

  /** Ends the connection with all of its calls. It connects again when it is opened again. */
  close(): void {
    this.#manager.abort();
  }
}

/**
 * A manager whose connections always have a listener for errors.
 *
 * Its own listener is gone when it gives up a connection. But a connection that breaks reports its error later than its
 * streams do, and by then the failure of a stream has often made this client give it up. Without a listener that error
 * would end the process.
 */
class Manager extends Http2SessionManager {
  readonly #known = new WeakSet<ClientHttp2Session>();

  override async request(...call: Parameters<Http2SessionManager["request"]>): Promise<ClientHttp2Stream> {
    const stream = await super.request(...call);
    const session = stream.session as ClientHttp2Session | undefined;
    if (session !== undefined && !this.#known.has(session)) {
      this.#known.add(session);
      // The streams and the manager report what happened.
      session.on("error", () => undefined);
    }
    return stream;
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
