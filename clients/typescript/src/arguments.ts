/** Checks of arguments. Their errors name the argument, the rule and the value. */
import { inspect } from "node:util";
import { DURATION_MAX_MS } from "./wire.js";

/** The most characters of a value that an error shows. */
const SHOWN_MAX = 80;

/** `TypeError` for a value of another type, else `RangeError`. A secret is not shown: errors end up in logs. */
export function mistake(what: string, rule: string, value: unknown, type: string, isSecret = false): Error {
  const text = isSecret ? typeof value : inspect(value, { depth: 0, breakLength: Infinity, customInspect: false });
  const shown = text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text;
  return new (typeof value === type ? RangeError : TypeError)(`${what} must be ${rule}, not ${shown}`);
}

/** @throws TypeError for what is not a text, or cannot be sent: protobuf would replace a lone surrogate by U+FFFD */
export function checkText(what: string, text: unknown, isSecret = false): asserts text is string {
  if (typeof text !== "string") throw mistake(what, "a string", text, "string", isSecret);
  if (!text.isWellFormed()) throw new TypeError(`${what} must not have a lone surrogate: it is no valid Unicode`);
}

/** A time in milliseconds that can be sent. The servers check whether it is in their range. */
export function checkDuration(what: string, value: unknown, min: "0 or more" | "above 0"): asserts value is number {
  const isDuration = typeof value === "number" && value >= 0 && value <= DURATION_MAX_MS;
  if (isDuration && (value > 0 || min === "0 or more")) return;
  throw mistake(what, `a finite number of milliseconds, ${min}`, value, "number");
}

export function checkBoolean(what: string, value: unknown): asserts value is boolean {
  if (typeof value !== "boolean") throw mistake(what, "a boolean", value, "");
}

export function checkWhole(what: string, value: unknown, min: number, max: number): asserts value is number {
  if (Number.isInteger(value) && (value as number) >= min && (value as number) <= max) return;
  throw mistake(what, `a whole number from ${String(min)} to ${String(max)}`, value, "number");
}

export function checkObject(what: string, value: unknown): asserts value is object {
  if (typeof value !== "object" || value === null) throw mistake(what, "an object", value, "");
}

export function checkMetadata(metadata: unknown): asserts metadata is Readonly<Record<string, string>> {
  checkObject("metadata", metadata);
  for (const [key, value] of Object.entries(metadata)) {
    checkText("a key of metadata", key);
    checkText(`metadata[${JSON.stringify(key)}]`, value);
  }
}

/** For functions that may be left out. */
export function checkFunction(what: string, value: unknown): void {
  if (value !== undefined && typeof value !== "function") throw mistake(what, "a function", value, "");
}

/** For signals that may be left out. */
export function checkSignal(value: unknown): void {
  if (value === undefined) return;
  const { addEventListener, aborted } = (value ?? {}) as Partial<AbortSignal>;
  if (typeof addEventListener !== "function" || typeof aborted !== "boolean") {
    throw mistake("signal", "an AbortSignal", value, "");
  }
}
