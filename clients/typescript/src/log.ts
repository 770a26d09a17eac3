/** What this package reports beside the results of calls. Nothing is logged while all is well. */

/** The parts of a message, for programs. No lease id, request id or token for authentication is among them. */
export interface LogFields {
  readonly lock?: string;
  /** The fencing token. */
  readonly token?: number;
  readonly server?: string;
  /** Another server of the client, if the message names two. */
  readonly other?: string;
  readonly cause?: string;
}

/** Where messages go. `console` is one, and so are most loggers. */
export interface Logger {
  debug(message: string, fields: LogFields): unknown;
  info(message: string, fields: LogFields): unknown;
  warn(message: string, fields: LogFields): unknown;
  error(message: string, fields: LogFields): unknown;
}

const LEVELS = ["debug", "info", "warn", "error"] as const;

export class Log {
  readonly #logger: Logger | null | undefined;

  /** By default, warnings and errors go to the console. `null` is silent. @throws TypeError for what is no logger */
  constructor(logger: Logger | null | undefined) {
    const has = (level: keyof Logger) => typeof (logger as Partial<Logger>)[level] === "function";
    if (logger != null && !LEVELS.every(has)) {
      throw new TypeError("logger must have the functions debug, info, warn and error, or be null");
    }
    this.#logger = logger;
  }

  info(message: string, fields: LogFields): void {
    this.#send("info", message, fields);
  }

  warn(message: string, fields: LogFields): void {
    this.#send("warn", message, fields);
  }

  /** A logger that throws or rejects must cost no lock. */
  #send(level: "info" | "warn", message: string, fields: LogFields): void {
    try {
      if (this.#logger != null) Promise.resolve(this.#logger[level](message, fields)).catch(() => undefined);
      else if (this.#logger === undefined && level === "warn") console.warn(message, fields);
    } catch {
      // There is no place left to report it to.
    }
  }
}
