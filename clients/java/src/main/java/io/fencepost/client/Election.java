package io.fencepost.client;

import java.time.Duration;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/** One candidate: campaigns for a lock, leads while it holds it, and campaigns again after a loss. */
final class Election {
  /** The shortest wait of a campaign, on a server that allows less than the usual one. */
  private static final Duration ROUND_MIN = Duration.ofSeconds(1);

  /** The codes of refusals after which a later campaign may succeed. */
  private static final Set<String> PASSING =
      Set.of("RESOURCE_EXHAUSTED", "ABORTED", "DEADLINE_EXCEEDED", "CANCELLED", "INTERNAL", "UNKNOWN");

  private final Keeper keeper;
  private final LockRequest request;

  /** How long one request of a campaign waits. */
  private Duration round = Duration.ofMillis(Facts.WAIT_MAX_MS);

  /** The failed campaigns and the short terms in a row, for the pause before the next campaign. */
  private int failures;

  /** Whether the log knows that campaigns fail. */
  private boolean outageTold;

  Election(Keeper keeper, LockRequest request) {
    this.keeper = keeper;
    this.request = request;
  }

  /** Leads until the body ends while it leads, or the caller is interrupted. */
  <T, X extends Exception> T lead(LockFunction<T, X> body) throws X {
    while (true) {
      HeldLock lock = campaign();
      long elected = keeper.now();
      Term<T, X> term = Term.begin(lock, body);
      boolean interrupted = term.await();
      if (!term.isLost()) {
        return resign(lock, term, interrupted);
      }
      lock.releaseAsync(); // the body has ended, so there is no need for a lock_delay any more
      term.drop(keeper.news);
      if (interrupted) {
        throw interrupted(new InterruptedException());
      }
      failures = keeper.now() - elected < Timing.REOPEN_MAX ? failures + 1 : 0;
      pause();
    }
  }

  private static <T, X extends Exception> T resign(HeldLock lock, Term<T, X> term, boolean interrupted) throws X {
    try (lock) {
      return term.result();
    } finally {
      // Not earlier: the release would not be waited for. An InterruptedException says it without the status.
      if (interrupted && !term.endedByInterrupt()) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** Waits for the lock as long as it takes. */
  private HeldLock campaign() {
    while (true) {
      try {
        HeldLock lock = (HeldLock) request.copy().waitFor(round).get();
        outageTold = false;
        return lock;
      } catch (TimedOutException | ContendedException othersLead) {
        failures = 0;
        outageTold = false;
      } catch (RefusedException refused) {
        if (isWaitTooLong(refused) && round.compareTo(ROUND_MIN) > 0) {
          round = round.dividedBy(2);
        } else {
          failed(refused, PASSING.contains(refused.code()));
        }
      } catch (UnavailableException unavailable) {
        failed(unavailable, !unavailable.isPermanent());
      } catch (OutcomeUnknownException | LockLostException failed) {
        failed(failed, true);
      }
    }
  }

  /** Whether the server allows shorter waits only. */
  private static boolean isWaitTooLong(RefusedException refused) {
    return refused.violations().stream().anyMatch(violation -> violation.field().equals("wait_timeout"));
  }

  private void failed(FencepostException failure, boolean passes) {
    if (!passes) {
      throw failure;
    }
    if (!outageTold) {
      outageTold = true;
      keeper.news.campaignFails(request.name(), failure);
    }
    failures++;
    pause();
  }

  private void pause() {
    try {
      TimeUnit.NANOSECONDS.sleep(Timing.reopenPause(0, failures));
    } catch (InterruptedException interrupted) {
      throw interrupted(interrupted);
    }
  }

  private WaitInterruptedException interrupted(InterruptedException cause) {
    Thread.currentThread().interrupt();
    return new WaitInterruptedException("interrupted in the election of " + request.name(), cause);
  }
}
