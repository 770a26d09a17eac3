/**
 * The stacks of errors. An error of this package is made deep inside of it, in a callback of a socket or a timer, where
 * the stack has no frame of the caller. So its stack is taken again where the call ends: there Node follows the promise
 * to the function that awaits it.
 */
import { FencepostError } from "./errors.js";

export async function traced<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof FencepostError) Error.captureStackTrace(error);
    throw error;
  }
}
