/**
 * Renews the leases of a client and carries its operations: one session for all of them.
 *
 * The server paces renewals; there is no renewal timer here. The keeper monitors the session. If it goes silent, or
 * beats arrive but renewals do not, or it ends or drains, the leases are attached to a session on the next server, with
 * higher attempt numbers, in order of expiry. The old session continues until the new one keeps all leases, and its
 * operations in flight are answered. All of this must fit into the TTL.
 *
 * The first operation opens a session. It is closed soon after the last lease ends.
 */
import { now } from "./clock.js";
import { Failure } from "./failure.js";
import { LINGER_MS } from "./facts.js";
import type { Lease } from "./lease.js";
import type { Operation } from "./operation.js";
import { renew } from "./renewing.js";
import type { Servers } from "./servers.js";
import { Session, type SessionListener } from "./session.js";
import { after, within } from "./timers.js";
import * as timing from "./timing.js";

export class Keeper {
  readonly #servers: Servers;
  readonly #leases = new Set<Lease>();
  /** The shortest TTL of all leases: sets the interval of checks. */
  #shortest: number | undefined;
  /** The shortest TTL of the leases on the session: sets its beats, by which silence is measured. */
  #pace: number | undefined;
  #current: Session | undefined;
  /** Continues until the current session keeps every lease. */
  #previous: Session | undefined;
  /** When the current session was opened, and when operations last left a session that works. */
  #openedAt: number | undefined;
  #movedAt: number | undefined;
  /** When to open the next session, once one is needed. */
  #due: number | undefined;
  /** Sessions opened since one worked. */
  #tries = 0;
  #idleSince: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(servers: Servers) {
    this.#servers = servers;
  }

  /** Renews a lease from now on. */
  add(lease: Lease): void {
    const at = now();
    if (lease.loss(at) !== undefined) return;
    const { ttl } = lease;
    this.#shortest = shorter(this.#shortest, ttl);
    const pace = shorter(this.#pace, ttl);
    if (pace !== this.#pace) this.#current?.paceChanged(at);
    this.#pace = pace;
    // A lease granted on the session is attached already.
    if (this.#current && !this.#current.isAttached(lease)) this.#current.attach(lease, at);
    this.#leases.add(lease);
    this.#checkWithin(Math.min(timing.tick(ttl), untilOver(lease, at)));
  }

  /** Stops renewing a lease and sends its release on a session that works. No renewal is sent after this. */
  release(lease: Lease, operation: Operation): Session {
    this.#leases.delete(lease);
    const works = [this.#current, this.#previous].find((session) => session?.works === true);
    const session = works ?? this.session();
    session.start(operation, lease);
    this.#detach(lease);
    return session;
  }

  /** The session for operations: the current one, unless it is unusable and the next one is due. */
  session(): Session {
    const at = now();
    this.#idleSince = undefined;
    const usable = this.#usable(at);
    if (usable) return usable;
    const session = this.#open(at);
    this.#checkWithin(timing.IDLE_TICK_MS);
    return session;
  }

  /** Ends the sessions. The leases end by their TTLs unless they were released. */
  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#leases.clear();
    this.#end(this.#previous);
    this.#end(this.#current);
    this.#previous = this.#current = undefined;
  }

  /** The leases that are renewed. */
  get leases(): Iterable<Lease> {
    return this.#leases;
  }

  #checkWithin(ms: number): void {
    const due = now() + ms;
    if (this.#timer !== undefined && due >= this.#checkAt) return;
    clearTimeout(this.#timer);
    this.#checkAt = due;
    this.#timer = after(ms, () => {
      this.#timer = undefined;
      const pause = this.#check(now());
      if (pause !== undefined) this.#checkWithin(pause);
    });
  }
  #checkAt = 0;

  /** Checks leases and sessions. Returns the time until the next check; `undefined` if nothing is left to do. */
  #check(at: number): number | undefined {
    const { stuck, over } = this.#checkLeases(at);
    this.#retirePrevious(at);
    const shortest = this.#shortest;
    if (shortest === undefined) return this.#checkIdle(at);
    this.#idleSince = undefined;
    const current = this.#current;
    // A working session that drains does not reset the backoff: sessions to a draining server are not opened quickly.
    if (current?.works === true && !current.isDraining) this.#tries = 0;
    const tick = Math.min(timing.tick(shortest), over);
    if (!stuck && current !== undefined && !this.#needsReplacement(current, at)) {
      this.#due = undefined;
      return tick;
    }
    const pause = current === undefined ? 0 : timing.pause(shortest, this.#tries) * Math.random();
    this.#due ??= Math.max(at + pause, current?.reopenAt ?? 0);
    if (at < this.#due) return Math.min(tick, this.#due - at);
    if (current) this.#servers.failed(current.server, whyReplaced(current));
    this.#open(at);
    return tick;
  }

  /** Opens a session with the preferred server and attaches all leases. */
  #open(at: number): Session {
    const server = this.#servers.preferred;
    const session = new Session(server, this.#servers.connection(server), this.#listener, at);
    const leases = [...this.#leases].filter((lease) => lease.onStream);
    leases.sort((a, b) => a.validUntil - b.validUntil);
    for (const lease of leases) session.attach(lease, at);
    const replaced = this.#current;
    this.#current = session;
    // Keep the replaced session if it is useful and renews at least as many leases as the previous one.
    const rest = this.#previous === undefined ? 0 : this.#renews(this.#previous, at);
    if (replaced && isUseful(replaced) && this.#renews(replaced, at) >= rest) {
      this.#end(this.#previous);
      this.#previous = replaced;
    } else {
      this.#end(replaced);
    }
    this.#due = undefined;
    this.#openedAt = at;
    this.#tries += 1;
    void session.run();
    return session;
  }

  readonly #listener: SessionListener = {
    toldStore: (session, id): void => {
      this.#servers.toldStore(session.server, id);
    },
    answered: (session): void => {
      this.#servers.answered(session.server);
    },
    changed: (): void => {
      this.#checkWithin(0);
    },
    full: (lease): void => {
      void this.#renewAlone(lease);
    },
    failed: (session, failure): void => {
      this.#servers.failed(session.server, failure);
      if (session === this.#current && failure.isStreamRefused) this.#goBack(session, now());
      if (session === this.#current || session === this.#previous) this.#checkWithin(0);
    },
  };

  /** The current session was refused. The quota may count the previous one: that goes on, or makes room. */
  #goBack(refused: Session, at: number): void {
    const previous = this.#previous;
    if (previous?.server !== refused.server) return;
    this.#previous = undefined;
    if (!previous.works || previous.isDraining || this.#isSilent(previous, at, previous.pace)) {
      this.#end(previous);
      return;
    }
    this.#current = previous;
    // Again, since the refused session has higher attempt numbers for all.
    for (const lease of this.#leases) if (lease.onStream) previous.attach(lease, at);
  }

  /** The current session, if operations should use it rather than a new one. */
  #usable(at: number): Session | undefined {
    const session = this.#current;
    if (session === undefined) return undefined;
    const recently = (then: number | undefined, ms: number) => then !== undefined && at - then < ms;
    if (session.hasEnded || session.isDraining) {
      const isTooSoon = recently(this.#openedAt, timing.SESSION_INTERVAL_MIN_MS) || at < session.reopenAt;
      return isTooSoon ? session : undefined;
    }
    if (session.server === this.#servers.preferred || recently(this.#movedAt, timing.MOVE_INTERVAL_MIN_MS)) {
      return session;
    }
    this.#movedAt = at;
    return undefined;
  }

  /** Renews a lease for which the session has no room, which it may have later. */
  async #renewAlone(lease: Lease): Promise<void> {
    const before = lease.validUntil;
    await within(renew(this, lease), timing.answerTimeout(lease.ttl));
    const isRenewed = lease.validUntil > before;
    lease.attachAt = now() + (isRenewed ? timing.renewalInterval(lease.ttl) : timing.tick(lease.ttl));
  }

  /** Removes lost leases. Returns whether the session fails to renew one, and when the first one will be over. */
  #checkLeases(at: number): { stuck: boolean; over: number } {
    let [stuck, over] = [false, Infinity];
    this.#shortest = this.#pace = undefined;
    for (const lease of this.#leases) {
      if (lease.loss(at) !== undefined) {
        this.#leases.delete(lease);
        this.#detach(lease);
        continue;
      }
      if (lease.attachAt !== undefined && at >= lease.attachAt) {
        lease.attachAt = undefined;
        lease.onStream = true;
        this.#current?.attach(lease, at);
      }
      this.#shortest = shorter(this.#shortest, lease.ttl);
      if (lease.onStream) this.#pace = shorter(this.#pace, lease.ttl);
      over = Math.min(over, untilOver(lease, at));
      if (lease.isOverdue(at)) {
        lease.atRisk(at, this.#servers.trouble);
        // A new attachment gets its time. If the store is the cause, another session with the only server is no help.
        const patient = at - lease.attachedAt <= timing.answerTimeout(lease.ttl);
        stuck ||= lease.onStream && !patient && !(lease.storeUnreachable && this.#servers.count === 1);
      }
    }
    return { stuck, over };
  }

  /** Ends the previous session when it is no longer needed. */
  #retirePrevious(at: number): void {
    const previous = this.#previous;
    if (previous === undefined) return;
    const works = this.#current?.works === true;
    const noLeases = this.#shortest === undefined;
    const takenOver = noLeases || (works && this.#current?.keepsAll === true);
    const needed = (previous.isBusy || !takenOver) && !this.#isSilent(previous, at, previous.pace);
    if (!previous.hasEnded && ((!works && !noLeases) || needed)) return;
    this.#end(previous);
    this.#previous = undefined;
  }

  /** Without leases: waits for the operations, then lingers. */
  #checkIdle(at: number): number | undefined {
    if (this.#previous !== undefined || this.#current?.isBusy === true) {
      this.#idleSince = undefined;
      return timing.IDLE_TICK_MS;
    }
    this.#idleSince ??= at;
    const left = this.#idleSince + LINGER_MS - at;
    if (left > 0) return left;
    this.#end(this.#current);
    this.#current = this.#idleSince = this.#due = undefined;
    this.#tries = 0;
    return undefined;
  }

  #needsReplacement(session: Session, at: number): boolean {
    return session.hasEnded || session.isDraining || this.#isSilent(session, at, this.#pace);
  }

  /** Without leases nothing is expected: HTTP/2 pings check the connection. */
  #isSilent(session: Session, at: number, pace: number | undefined): boolean {
    if (pace === undefined) return false;
    const limit = session.answers ? timing.silenceLimit(pace) : timing.answerTimeout(pace);
    return at - session.lastReceived > limit;
  }

  /** The number of leases that a session renews. */
  #renews(session: Session, at: number): number {
    return session.works && !this.#isSilent(session, at, session.pace) ? session.kept : 0;
  }

  #detach(lease: Lease): void {
    this.#current?.detach(lease);
    this.#previous?.detach(lease);
  }

  #end(session: Session | undefined): void {
    session?.close(Failure.local("the session was replaced", true));
  }
}

/** Whether a session still renews leases or answers operations. */
function isUseful(session: Session): boolean {
  return session.works || (!session.hasEnded && session.isBusy);
}

/** Sent, because the session was open: the failure does not explain why the next connection fails. */
function whyReplaced(session: Session): Failure {
  const drains = session.isDraining ? "it drains" : "no renewal arrives from it";
  return session.end ?? Failure.local(drains, true);
}

function shorter(shortest: number | undefined, ttl: number): number {
  return Math.min(shortest ?? ttl, ttl);
}

/** The time until the lease is over, in milliseconds; a timer may fire up to one early. */
function untilOver(lease: Lease, at: number): number {
  return lease.validUntil - at + 1;
}
