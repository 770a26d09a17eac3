/** What a guard needs of a lock. Any `Lock` has it; send these three along with work that another process does. */
export interface Fenced {
  /** The name of the lock. */
  readonly name: string;
  /** The fencing token. */
  readonly token: number;
  /** The public id of the grant. */
  readonly grantId: string;
}
