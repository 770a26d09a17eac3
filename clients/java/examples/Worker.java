import io.fencepost.client.ContendedException;
import io.fencepost.client.FencedLock;
import io.fencepost.client.FencepostClient;
import io.fencepost.client.LockLostException;
import java.time.Duration;

/** A worker that takes one job at a time, and stops when it loses the lock of the job. */
public final class Worker {
  private Worker() {}

  /** The arguments are the jobs; FENCEPOST_SERVER names the servers. */
  public static void main(String[] jobs) {
    try (FencepostClient client = FencepostClient.create()) {
      for (String job : jobs) {
        work(client, job);
      }
    }
  }

  static void work(FencepostClient client, String job) {
    try {
      client.acquire("jobs/" + job).ttl(Duration.ofSeconds(10)).metadata("version", "1.4").run(lock -> {
        for (int number = 1; number <= 3; number++) {
          lock.check(); // throws LockLostException
          step(job, number, lock);
        }
      });
    } catch (ContendedException busy) {
      System.out.println(job + ": " + busy.getMessage());
    } catch (LockLostException lost) {
      System.out.println(job + " is unfinished: " + lost.getMessage());
    }
  }

  /** One step of the work. It sends the token with its write, and the store refuses lower ones. */
  private static void step(String job, int number, FencedLock lock) {
    System.out.println(job + ": step " + number + " with token " + lock.token());
  }
}
