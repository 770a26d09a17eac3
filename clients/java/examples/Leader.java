import io.fencepost.client.FencedLock;
import io.fencepost.client.FencepostClient;
import io.fencepost.client.LockLostException;
import io.fencepost.client.TimedOutException;
import java.time.Duration;

/** One of many processes leads. The others wait, and one of them takes over when the leader ends or is lost. */
public final class Leader {
  private Leader() {}

  /** FENCEPOST_SERVER names the servers. */
  public static void main(String[] arguments) throws InterruptedException {
    try (FencepostClient client = FencepostClient.create();
        FencedLock lock =
            client.acquire("leader").ttl(Duration.ofSeconds(5)).waitFor(Duration.ofSeconds(60)).get()) {
      // The work is interrupted as soon as the lead is lost, not only before its next step.
      Thread leading = Thread.currentThread();
      lock.onLost(Runnable::run, loss -> leading.interrupt());
      try {
        lead(lock);
      } catch (InterruptedException interrupted) {
        lock.check(); // throws LockLostException
        throw interrupted;
      }
    } catch (TimedOutException busy) {
      System.out.println("another process leads: " + busy.getMessage());
    } catch (LockLostException lost) {
      System.out.println("not the leader any more: " + lost.getMessage());
    }
  }

  /** The work of the leader. It sends the token with every write. */
  private static void lead(FencedLock lock) throws InterruptedException {
    for (int round = 1; round <= 3; round++) {
      System.out.println("leading with token " + lock.token() + ", round " + round);
      Thread.sleep(100);
    }
  }
}
