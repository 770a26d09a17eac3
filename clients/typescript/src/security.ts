/** How a client and its servers trust each other: certificates and tokens. */
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import { type Address, isLocal } from "./address.js";
import { ENVIRONMENT_CA, ENVIRONMENT_CERT, ENVIRONMENT_KEY } from "./facts.js";
import { within } from "./timers.js";

/** The files for connections to `https://` servers. */
export interface TlsOptions {
  /** The PEM file of the authorities that sign the servers' certificates. Default: those that Node trusts. */
  readonly caFile?: string;
  /** The PEM file of this client's certificate, for servers that ask for one. */
  readonly certFile?: string;
  /** The PEM file of the key of this client's certificate. */
  readonly keyFile?: string;
}

/**
 * A bearer token, or a function that is asked for one before each call and each stream. The call that needs the token
 * fails with the code `UNAUTHENTICATED` if the function does, or has not settled after 90 % of the time that one server
 * gets to answer: after 4.5 s, or less with several servers or a short timeout.
 */
export type TokenSource = string | (() => string | Promise<string>);

/** What all connections of a client have in common. */
export interface Security {
  readonly tls: Tls;
  readonly tokens: Tokens | undefined;
}

/** The longest time for a token, in milliseconds: less than for a call, so that its error says what is missing. */
const TOKEN_TIMEOUT_MS = 4500;

/** A call is not made, because it has no token. */
export class NoToken extends Error {
  constructor(why: string, cause?: unknown) {
    super(`no bearer token: ${why}`, { cause });
  }
}

/** The bearer tokens of a client's calls. */
export class Tokens {
  readonly #source: TokenSource;
  readonly #timeout: number;

  /**
   * `timeout` is what the client or one server has for a call, whichever is shorter.
   *
   * @throws TypeError for a token that cannot be sent
   */
  constructor(source: TokenSource, timeout: number) {
    if (typeof source !== "function") sendable(source);
    this.#source = source;
    this.#timeout = Math.min(timeout * 0.9, TOKEN_TIMEOUT_MS);
  }

  /** The token for one call. A function that never settles must not hold up the call beyond its time or its signal. */
  async next(signal: AbortSignal): Promise<string> {
    if (typeof this.#source !== "function") return sendable(this.#source);
    const asked = (async (source) => ({ token: await source() }))(this.#source);
    let answer: { token: string } | undefined;
    try {
      answer = await within(asked, this.#timeout, signal);
    } catch (error) {
      throw new NoToken(error instanceof Error ? error.message : String(error), error);
    }
    if (answer === undefined) throw new NoToken(`its function did not settle within ${String(this.#timeout)} ms`);
    try {
      return sendable(answer.token);
    } catch (error) {
      throw new NoToken(error instanceof Error ? error.message : "");
    }
  }
}

/** The token without spaces and line ends around it. The errors do not show it, because they end up in logs. */
function sendable(token: unknown): string {
  if (typeof token !== "string") throw new TypeError("the token is not a string");
  const text = token.trim();
  if (text === "") throw new TypeError("the token is empty");
  if (/[\r\n]/.test(text)) throw new TypeError("the token has a line end inside");
  if (/[^ -~]/.test(text)) throw new TypeError("the token has a character that is not visible ASCII");
  return text;
}

/** Checks that a bearer token is not sent in plain text over a network. */
export function checkToken(address: Address, token: TokenSource | undefined): void {
  if (token === undefined || address.tls || isLocal(address)) return;
  throw new TypeError(
    `the token would be sent to ${address.text} in plain text: use https://, a Unix socket or a loopback address`,
  );
}

/** What the files contain. */
export interface TlsMaterial {
  ca?: Buffer;
  cert?: Buffer;
  key?: Buffer;
}

/** The PEM files. They are read for each connection, so renewed certificates need no restart. */
export class Tls {
  readonly #files: TlsOptions;

  /**
   * Options that are not given are taken from the environment.
   *
   * @throws TypeError if a certificate lacks its key, or a key its certificate.
   */
  constructor(options: TlsOptions = {}) {
    const { caFile = setting(ENVIRONMENT_CA) } = options;
    // A pair is taken from one place: a certificate of the options never meets a key of the environment.
    const given = options.certFile !== undefined || options.keyFile !== undefined;
    const certFile = given ? options.certFile : setting(ENVIRONMENT_CERT);
    const keyFile = given ? options.keyFile : setting(ENVIRONMENT_KEY);
    if ((certFile === undefined) !== (keyFile === undefined)) {
      throw new TypeError("a client certificate needs both files: give certFile and keyFile");
    }
    this.#files = {
      ...(caFile !== undefined && { caFile }),
      ...(certFile !== undefined && { certFile }),
      ...(keyFile !== undefined && { keyFile }),
    };
  }

  /** Whether the client has a certificate of its own. */
  get hasCertificate(): boolean {
    return this.#files.certFile !== undefined;
  }

  /**
   * Checks the files, so that a mistake is an error of the constructor and not of each connection.
   *
   * @throws the error of a file that cannot be read; TypeError if one has no certificate or key, or they do not match
   */
  check(): void {
    const material = this.read();
    const { caFile = "", certFile = "", keyFile = "" } = this.#files;
    try {
      // An authority without a certificate would be ignored.
      if (material.ca) new X509Certificate(material.ca).toString();
    } catch (cause) {
      throw new TypeError(`there is no PEM certificate in ${caFile}`, { cause });
    }
    try {
      createSecureContext(material);
    } catch (cause) {
      const text = cause instanceof Error ? cause.message : "";
      throw new TypeError(`${certFile} and ${keyFile} are not a PEM certificate and its key: ${text}`, { cause });
    }
  }

  /** Reads the files. They are small and a connection is rare, so this does not wait for the thread pool. */
  read(): TlsMaterial {
    const { caFile, certFile, keyFile } = this.#files;
    return {
      ...(caFile !== undefined && { ca: readFileSync(caFile) }),
      ...(certFile !== undefined && { cert: readFileSync(certFile) }),
      ...(keyFile !== undefined && { key: readFileSync(keyFile) }),
    };
  }
}

/** A variable of the environment; `undefined` if it is empty. */
export function setting(name: string): string | undefined {
  const value = process.env[name];
  return value === "" ? undefined : value;
}
