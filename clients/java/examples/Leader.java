import io.fencepost.client.FencedLock;
import io.fencepost.client.FencepostClient;
import java.time.Duration;

/** One of many processes leads. The others wait, and one of them takes over when the leader ends or is lost. */
public final class Leader {
  private Leader() {}

  /** FENCEPOST_SERVER names the servers. */
  public static void main(String[] arguments) throws InterruptedException {
    try (FencepostClient client = FencepostClient.create()) {
      // If the lead is lost, the work is interrupted, and begins anew when this process is elected again.
      client.lead("leader").ttl(Duration.ofSeconds(5)).run(Leader::work);
    }
  }

  /** The work of the leader. It sends the token with every write, and ends when it is interrupted. */
  private static void work(FencedLock lock) throws InterruptedException {
    for (int round = 1; round <= 3; round++) {
      System.out.println("leading with token " + lock.token() + ", round " + round);
      Thread.sleep(100);
    }
  }
}
