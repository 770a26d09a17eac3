/** A logger that keeps what it is told. */
import type { LogFields, Logger } from "../../src/index.js";

export class Kept implements Logger {
  readonly lines: string[] = [];
  readonly fields: LogFields[] = [];

  debug(text: string, fields: LogFields): void {
    this.#keep("debug", text, fields);
  }

  info(text: string, fields: LogFields): void {
    this.#keep("info", text, fields);
  }

  warn(text: string, fields: LogFields): void {
    this.#keep("warn", text, fields);
  }

  error(text: string, fields: LogFields): void {
    this.#keep("error", text, fields);
  }

  /** The messages of a level. */
  of(level: string): string[] {
    return this.lines.filter((line) => line.startsWith(level)).map((line) => line.slice(level.length + 1));
  }

  #keep(level: string, text: string, fields: LogFields): void {
    this.lines.push(`${level} ${text}`);
    this.fields.push(fields);
  }
}
