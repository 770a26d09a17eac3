/** A TCP proxy that can lose or delay what a server answers. */
import { once } from "node:events";
import * as net from "node:net";
import type { TestContext } from "node:test";

export class Proxy {
  readonly #server: net.Server;
  #target: string;
  readonly #sockets = new Set<net.Socket>();
  /** The open connections over which nothing passes any more. */
  readonly #silent = new WeakSet<net.Socket>();
  #drops = false;
  /** The delayed answers, in order; `undefined` while they pass. */
  #held: (() => void)[] | undefined;
  /** The connections so far. */
  connections = 0;

  private constructor(target: string) {
    this.#target = target;
    this.#server = net.createServer((client) => {
      this.connections += 1;
      const [host = "", port = ""] = this.#target.split(":");
      const server = net.connect({ host, port: Number(port) });
      for (const [from, to, isAnswer] of [[client, server, false], [server, client, true]] as const) {
        this.#sockets.add(from);
        from.on("data", (data) => {
          if (this.#silent.has(from) || (isAnswer && this.#drops)) return;
          if (isAnswer && this.#held) this.#held.push(() => to.write(data));
          else to.write(data);
        });
        from.on("error", () => to.destroy());
        from.on("close", () => {
          this.#sockets.delete(from);
          to.destroy();
        });
      }
    });
  }

  /** Listens on a free port of 127.0.0.1, or at this address. */
  static async start(t: TestContext, target: string, listen = "127.0.0.1:0"): Promise<Proxy> {
    const proxy = new Proxy(target);
    const [host = "", port = ""] = listen.split(":");
    proxy.#server.listen(Number(port), host);
    await once(proxy.#server, "listening");
    t.after(() => {
      proxy.#server.close();
      proxy.cut();
    });
    return proxy;
  }

  get address(): string {
    const { address, port } = this.#server.address() as net.AddressInfo;
    return `${address}:${String(port)}`;
  }

  /** Whether any connection is open. */
  get isConnected(): boolean {
    return this.#sockets.size > 0;
  }

  /** New connections lead to this server. */
  leadTo(target: string): void {
    this.#target = target;
  }

  /** From now on nothing that the server says arrives, and no connection ends. */
  dropAnswers(): void {
    this.#drops = true;
  }

  /** The open connections fall silent in both directions, and new ones work: as a NAT does that lost its table. */
  silence(): void {
    for (const socket of this.#sockets) this.#silent.add(socket);
  }

  /** From now on answers are delayed, until they pass. */
  holdAnswers(): void {
    this.#held = [];
  }

  /** The delayed answers arrive, and so do all others. */
  passAnswers(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const pass of held) pass();
  }

  /** Breaks all connections, and takes no new ones. */
  refuse(): void {
    this.#server.close();
    this.cut();
  }

  /** Breaks all connections. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}
