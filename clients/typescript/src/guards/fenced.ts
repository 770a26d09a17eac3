import { StaleToken } from "../errors.js";

/** What a guard needs of a lock. Any `Lock` has it; send these three along with work that another process does. */
export interface Fenced {
  /** The name of the lock. */
  readonly name: string;
  /** The fencing token. */
  readonly token: number;
  /** The public id of the grant. */
  readonly grantId: string;
}

/** Why a store whose highest token is `newest` refuses the holder of a shared lock. */
export function refused({ name, token }: Fenced, newest: number): Error {
  if (newest >= token) return new StaleToken(name, token, newest);
  return new TypeError(`token ${String(token)} of ${name} was not raised: call raiseShared once after the grant`);
}
