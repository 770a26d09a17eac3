/**
 * What a port is that ended a connection before it had said anything of HTTP/2, which Node's errors do not tell.
 *
 * A probe is a connection of its own that sends the beginning of HTTP/2, or a TLS handshake, and nothing else: no
 * request, token or certificate. It follows a failed connection only, and its time is bounded.
 */
import type { Socket } from "node:net";
import * as net from "node:net";
import * as tls from "node:tls";
import type { Address } from "./address.js";
import { now } from "./clock.js";
import {
  CONNECT_TIMEOUT_MS,
  NOT_GRPC_BYTES,
  NOT_GRPC_CLOSED,
  NOT_GRPC_CLOSED_PLAIN,
  NOT_GRPC_OTHER,
  NOT_GRPC_SILENT,
  NOT_GRPC_TLS_ALERT,
  TLS_NOT_TLS,
} from "./facts.js";
import { after } from "./timers.js";
import type { Trouble } from "./trouble.js";

/** The preface of a client, and settings without an entry. */
const BEGINNING = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", "latin1");
/** The most bytes that an error shows of another protocol. */
const SHOWN_MAX = 60;
/** The minimum time between two probes of one server. */
const PROBE_INTERVAL_MS = 1000;
/** The type of the frame with which a server begins HTTP/2, and its place in the frame. */
const [SETTINGS, TYPE_AT] = [4, 3];

export const SILENT: Trouble = { text: NOT_GRPC_SILENT, isLasting: false, isPredicate: true };
const CLOSED: Trouble = { text: NOT_GRPC_CLOSED, isLasting: false, isPredicate: true };

/** What arrived first: bytes, the end of the connection, or nothing in time; `unreached` if it did not connect. */
type First = Buffer | "closed" | "silent" | "unreached";

/**
 * The probes of one server. A client connects many times a second to a server that has stopped, and a probe is up to two
 * connections more: so there is one probe a second at most, and its result explains all failures of that second.
 */
export class Probes {
  #at = -Infinity;
  #found: Promise<Trouble | undefined> | undefined;

  /** Looks at the port of a server whose connection ended before its greeting. `dial` connects as the client does. */
  look(address: Address, dial: () => Socket): Promise<Trouble | undefined> {
    if (this.#found === undefined || now() - this.#at >= PROBE_INTERVAL_MS) {
      this.#at = now();
      this.#found = probe(address, dial);
    }
    return this.#found;
  }

  /** The server has spoken: what was found before is over. */
  forget(): void {
    this.#found = undefined;
  }
}

async function probe(address: Address, dial: () => Socket): Promise<Trouble | undefined> {
  const isTls = address.kind === "tcp" && address.tls;
  const first = await firstOf(dial, isTls ? "secureConnect" : "connect", BEGINNING);
  if (first instanceof Buffer) return first[TYPE_AT] === SETTINGS ? undefined : other(first, isTls);
  if (first === "silent") return SILENT;
  if (address.kind === "unix") return first === "closed" ? CLOSED : undefined;
  const { host, port } = address;
  if (isTls) {
    const plain = await firstOf(() => net.connect({ host, port }), "connect", BEGINNING);
    if (plain instanceof Buffer && !isAlert(plain)) return { text: TLS_NOT_TLS, isLasting: true };
    return first === "closed" ? CLOSED : undefined;
  }
  if (first === "unreached") return undefined;
  return { text: NOT_GRPC_CLOSED_PLAIN, isLasting: await speaksTls(host, port), isPredicate: true };
}

function other(bytes: Buffer, isTls: boolean): Trouble {
  if (!isTls && isAlert(bytes)) return { text: NOT_GRPC_TLS_ALERT, isLasting: true, isPredicate: true };
  return { text: NOT_GRPC_OTHER.replace("{}", () => shown(bytes)), isLasting: true, isPredicate: true };
}

/** Whether it begins as the record of a TLS alert. */
function isAlert(bytes: Buffer): boolean {
  return bytes[0] === 0x15 && bytes[1] === 0x03;
}

/** The first line, if it is text. */
function shown(bytes: Buffer): string {
  const [line = ""] = bytes.subarray(0, SHOWN_MAX).toString("utf8").split(/[\r\n]/, 1);
  return line === "" || /[\p{Cc}\p{Cf}\u{fffd}]/u.test(line) ? NOT_GRPC_BYTES : JSON.stringify(line);
}

/** Sends the beginning once the socket is ready, and waits for what comes first. */
function firstOf(dial: () => Socket, ready: "connect" | "secureConnect", beginning: Buffer): Promise<First> {
  return new Promise((resolve) => {
    let isConnected = false;
    const socket = dial();
    const settle = (first: First) => {
      clearTimeout(late);
      resolve(first);
      socket.destroy();
    };
    const late = after(CONNECT_TIMEOUT_MS, () => {
      settle(isConnected ? "silent" : "unreached");
    });
    const ended = () => {
      settle(isConnected ? "closed" : "unreached");
    };
    socket.unref();
    socket.once("connect", () => (isConnected = true));
    socket.once(ready, () => socket.write(beginning));
    socket.once("data", settle);
    // The listener stays: an error without one would end the process.
    socket.on("error", ended);
    socket.once("close", ended);
  });
}

/** Whether the port answers a TLS handshake. */
function speaksTls(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    // Nothing is sent after the handshake, so it does not matter whose certificate it is.
    const socket = tls.connect({ host, port, ALPNProtocols: ["h2"], rejectUnauthorized: false });
    const settle = (speaks: boolean) => {
      clearTimeout(late);
      resolve(speaks);
      socket.destroy();
    };
    const late = after(CONNECT_TIMEOUT_MS, () => {
      settle(false);
    });
    socket.unref();
    socket.once("secureConnect", () => {
      settle(true);
    });
    socket.on("error", (error: Error & { code?: string }) => {
      settle(error.code?.includes("_ALERT_") === true);
    });
    socket.once("close", () => {
      settle(false);
    });
  });
}
