/**
 * The stacks of errors. An error of this package is made deep inside of it, in a callback of a socket or a timer, where
 * the stack has no frame of the caller. So its stack is taken again where the call ends: there Node follows the promise
 * to the function that awaits it, if nothing else does.
 */
import { FencepostError } from "./errors.js";

/** The stack of a call, which is written out only if it is read. */
export interface CallSite {
  readonly stack: string;
}

/** The stack here, for a promise that is not awaited by the caller alone. */
export function callSite(): CallSite {
  const site = { stack: "" };
  Error.captureStackTrace(site, callSite);
  return site;
}

export async function traced<T>(work: () => Promise<T>, site?: CallSite): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof FencepostError)) throw error;
    if (site === undefined) Error.captureStackTrace(error);
    else error.stack = `${String(error)}${site.stack.slice(site.stack.indexOf("\n"))}`;
    throw error;
  }
}
