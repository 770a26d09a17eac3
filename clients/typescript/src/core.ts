/** What all parts of a client share. */
import { Keeper } from "./keeper.js";
import { Log } from "./log.js";
import type { Servers } from "./servers.js";
import { Awake, within } from "./timers.js";

export class Core {
  readonly servers: Servers;
  readonly keeper: Keeper;
  /** The default label of grants. */
  readonly holder: string;
  /** How long a call is repeated while no server answers it, beyond its wait, in milliseconds. */
  readonly timeout: number;
  readonly log: Log;
  readonly awake = new Awake();
  /** Called when the client is closed. */
  readonly onClose = new Set<() => void>();
  isClosed = false;
  readonly #background = new Set<Promise<unknown>>();

  constructor(servers: Servers, holder: string, timeout: number, log: Log = new Log(null)) {
    this.servers = servers;
    this.keeper = new Keeper(servers);
    this.holder = holder;
    this.timeout = timeout;
    this.log = log;
  }

  /** Runs bounded work behind the callers. It never rejects, and does not keep the process alive. */
  inBackground(work: Promise<void>): void {
    this.#background.add(work);
    void work.finally(() => this.#background.delete(work));
  }

  /** Notes an acquire. When it is given up, it leaves its withdrawal behind, which a closing client has to wait for. */
  acquiring(acquired: Promise<unknown>): void {
    const settled = () => undefined;
    this.inBackground(acquired.then(settled, settled));
  }

  /** Waits for the work behind the callers, at most some milliseconds. */
  async flushed(ms: number): Promise<void> {
    const flushed = async () => {
      while (this.#background.size > 0) await Promise.all(this.#background);
    };
    await within(flushed(), ms);
  }
}
