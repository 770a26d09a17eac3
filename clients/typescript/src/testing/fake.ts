/** A server inside the process, for tests without a binary. */
import { once } from "node:events";
import * as http2 from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { create } from "@bufbuild/protobuf";
import { type ServiceImpl } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import {
  CheckTokenResponse_Status as Status,
  GetResponseSchema,
  LeaseEnd,
  LockService,
} from "../gen/fencepost/v1/lock_pb.js";
import { FakeSession } from "./fake-session.js";
import { Locks } from "./locks.js";
import { Pause } from "./pause.js";

/**
 * A server inside the process: real clients connect to it over a socket. It is for tests of programs, where it replaces
 * the binary: it grants, queues, renews and expires leases, and can lose a lock, an answer, or fall silent on demand.
 *
 * It serves what {@link Client} calls, without the bounds and the checks of the real server, and without `watch`. Use
 * `Server` for those.
 *
 * ```ts
 * await using server = await FakeServer.start();
 * await using client = new Client({ servers: server.address });
 * const lock = await client.lock("orders/42");
 * server.lose("orders/42"); // lock.signal aborts
 * ```
 */
export class FakeServer implements AsyncDisposable {
  /** Where it listens, as a client takes it. */
  readonly address: string;
  readonly #server: http2.Http2Server;
  readonly #locks: Locks;
  readonly #sessions: Set<FakeSession>;
  readonly #sockets: Set<Socket>;
  readonly #pause: Pause;

  private constructor(
    server: http2.Http2Server,
    locks: Locks,
    sessions: Set<FakeSession>,
    sockets: Set<Socket>,
    pause: Pause,
  ) {
    this.address = `127.0.0.1:${String((server.address() as AddressInfo).port)}`;
    this.#server = server;
    this.#locks = locks;
    this.#sessions = sessions;
    this.#sockets = sockets;
    this.#pause = pause;
  }

  /** Starts it on a free port of 127.0.0.1. It keeps the process alive until it is stopped. */
  static async start(): Promise<FakeServer> {
    const locks = new Locks();
    const sessions = new Set<FakeSession>();
    const sockets = new Set<Socket>();
    const pause = new Pause();
    const service = serve(locks, sessions, pause);
    const routes = connectNodeAdapter({ routes: (router) => router.service(LockService, service) });
    const server = http2.createServer(routes);
    server.on("connection", (socket: Socket) => {
      sockets.add(socket);
      socket.once("close", () => sockets.delete(socket));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new FakeServer(server, locks, sessions, sockets, pause);
  }

  /**
   * Falls silent, as a server that is paused or cut off: it answers nothing and renews nothing, and connections stay
   * open. Leases still end by their TTLs.
   */
  pause(): void {
    this.#pause.begin();
  }

  /** Goes on. */
  resume(): void {
    this.#pause.end();
  }

  /** Revokes the lease of a lock, as an operator may. Its holder is told. @throws Error if nobody holds it */
  lose(name: string): void {
    const grant = this.#locks.current(name);
    if (grant === undefined) throw new Error(`nobody holds ${JSON.stringify(name)}`);
    this.#locks.end(grant, LeaseEnd.REVOKED);
  }

  /**
   * Does what the next acquire, release or renewal asks for and loses the answer together with its connection. The
   * client asks again, with the same ids.
   */
  dropReply(): void {
    this.#locks.dropsReply = true;
  }

  /** Ends the server and its connections. */
  async stop(): Promise<void> {
    this.#pause.end();
    for (const session of this.#sessions) session.close();
    for (const socket of this.#sockets) socket.destroy();
    if (!this.#server.listening) return;
    this.#server.close();
    await once(this.#server, "close");
  }

  /** The same as {@link stop}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

function serve(locks: Locks, sessions: Set<FakeSession>, pause: Pause): Partial<ServiceImpl<typeof LockService>> {
  return {
    async *session(requests) {
      const session = new FakeSession(locks, pause);
      sessions.add(session);
      void session.read(requests);
      try {
        yield* session.answers();
      } finally {
        sessions.delete(session);
        session.close();
      }
    },
    async get({ lockName }) {
      await pause.wait();
      return create(GetResponseSchema, { lock: locks.info(lockName) });
    },
    async list({ prefix }) {
      await pause.wait();
      const names = locks.names.filter((name) => name.startsWith(prefix));
      return { locks: names.map((name) => locks.info(name)) };
    },
    async checkToken({ lockName, fencingToken }) {
      await pause.wait();
      const newestToken = locks.newest(lockName);
      const current = locks.current(lockName)?.token === fencingToken ? Status.CURRENT : Status.ENDED;
      const known = fencingToken < newestToken ? Status.STALE : Status.UNKNOWN;
      return { status: fencingToken === newestToken ? current : known, newestToken };
    },
  };
}
