package io.fencepost.client.guards;

import io.fencepost.client.Facts;
import io.fencepost.client.FencedLock;
import java.util.ArrayList;
import java.util.List;

/**
 * Keeps the newest token of a lock in Redis, next to the data that the lock protects: one script compares the token and
 * writes. Works with any Redis client that can run a script.
 *
 * <pre>{@code
 * RedisGuard guard = new RedisGuard("return redis.call('SET', KEYS[2], ARGV[3])");
 * // Jedis:
 * guard.run(lock, "{orders/42}:fence", List.of("{orders/42}"), List.of("shipped"), jedis::eval);
 * }</pre>
 *
 * <p>The holder of a shared lock raises its token once after the grant, and then runs the script as a reader:
 *
 * <pre>{@code
 * RedisGuard.raiseShared(lock, "{orders/42}:fence", jedis::eval);
 * guard.checkShared(lock, "{orders/42}:fence", List.of("{orders/42}"), List.of("shipped"), jedis::eval);
 * }</pre>
 *
 * <p>On Redis Cluster the fence and the data must be in one slot: give their keys the same hash tag.
 */
public final class RedisGuard {
  /** What Redis answers a stale token with; the newest token follows. */
  private static final String STALE = "STALE ";

  private final String script;

  private final String sharedScript;

  /**
   * Runs a script with {@code EVAL}.
   *
   * @param <T> the type of its result
   */
  @FunctionalInterface
  public interface Eval<T> {
    /**
     * Runs the script.
     *
     * @param script the script
     * @param keys its keys
     * @param arguments its arguments
     * @return its result
     */
    T eval(String script, List<String> keys, List<String> arguments);
  }

  /**
   * Creates a guard around a script.
   *
   * @param body the Lua code that reads and writes: its keys begin at {@code KEYS[2]}, its arguments at {@code ARGV[3]}
   */
  public RedisGuard(String body) {
    this.script = Facts.GUARD_REDIS_RAISE + "\n" + body;
    this.sharedScript = Facts.GUARD_REDIS_CHECK_SHARED + "\n" + body;
  }

  /**
   * The whole script, to load it in advance.
   *
   * @return the script: the comparison, then the body
   */
  public String script() {
    return script;
  }

  /**
   * The whole script of a reader, to load it in advance.
   *
   * @return the script: the comparison, then the body
   */
  public String sharedScript() {
    return sharedScript;
  }

  /**
   * Compares the token of a lock with the fence, raises the fence and runs the body, in one step.
   *
   * @param lock the lock; its token and grant id count, whether it is still valid or not
   * @param fenceKey the key of the fence; for one permit of a semaphore, {@link Fence#key} adds its slot
   * @param keys the keys of the body
   * @param arguments the arguments of the body
   * @param redis runs the script, such as {@code jedis::eval}
   * @param <T> the type of the body's result
   * @return the body's result
   * @throws StaleTokenException if Redis has seen a newer token; nothing was written
   * @throws IllegalArgumentException if the lock has several permits of a semaphore, and so no {@link Fence}
   */
  public <T> T run(FencedLock lock, String fenceKey, List<String> keys, List<String> arguments, Eval<T> redis) {
    String key = Fence.key(lock, fenceKey);
    return run(lock.name(), lock.token(), lock.grantId(), key, keys, arguments, redis);
  }

  /**
   * The same with a token that came from another process, in a message say.
   *
   * @param name the lock's name, for messages
   * @param token the fencing token
   * @param grantId the grant id that belongs to the token
   * @param fenceKey the key of the fence
   * @param keys the keys of the body
   * @param arguments the arguments of the body
   * @param redis runs the script
   * @param <T> the type of the body's result
   * @return the body's result
   * @throws StaleTokenException if Redis has seen a newer token; nothing was written
   */
  public <T> T run(
      String name,
      long token,
      String grantId,
      String fenceKey,
      List<String> keys,
      List<String> arguments,
      Eval<T> redis) {
    return eval(script, name, token, grantId, fenceKey, keys, arguments, redis);
  }

  /**
   * Raises the token of a shared lock. Call it once after the grant.
   *
   * @param lock the lock; its token and grant id count, whether it is still valid or not
   * @param fenceKey the key of the fence
   * @param redis runs the script, such as {@code jedis::eval}
   * @throws StaleTokenException if a later writer has raised the fence
   * @throws IllegalArgumentException if the lock is held as a semaphore
   */
  public static void raiseShared(FencedLock lock, String fenceKey, Eval<?> redis) {
    Fence.checkReader(lock);
    raiseShared(lock.name(), lock.token(), lock.grantId(), fenceKey, redis);
  }

  /**
   * The same with a token that came from another process, in a message say.
   *
   * @param name the lock's name, for messages
   * @param token the fencing token
   * @param grantId the grant id that belongs to the token
   * @param fenceKey the key of the fence
   * @param redis runs the script
   * @throws StaleTokenException if a later writer has raised the fence
   */
  public static void raiseShared(String name, long token, String grantId, String fenceKey, Eval<?> redis) {
    eval(Facts.GUARD_REDIS_RAISE_SHARED, name, token, grantId, fenceKey, List.of(), List.of(), redis);
  }

  /**
   * Checks the token of a shared lock and runs the body, in one step, after {@code raiseShared}.
   *
   * @param lock the lock; its token and grant id count, whether it is still valid or not
   * @param fenceKey the key of the fence
   * @param keys the keys of the body
   * @param arguments the arguments of the body
   * @param redis runs the script, such as {@code jedis::eval}
   * @param <T> the type of the body's result
   * @return the body's result
   * @throws StaleTokenException if a later writer has raised the fence; the body did not run
   * @throws IllegalStateException if {@code raiseShared} was not called
   * @throws IllegalArgumentException if the lock is held as a semaphore
   */
  public <T> T checkShared(
      FencedLock lock, String fenceKey, List<String> keys, List<String> arguments, Eval<T> redis) {
    Fence.checkReader(lock);
    return checkShared(lock.name(), lock.token(), lock.grantId(), fenceKey, keys, arguments, redis);
  }

  /**
   * The same with a token that came from another process, in a message say.
   *
   * @param name the lock's name, for messages
   * @param token the fencing token
   * @param grantId the grant id that belongs to the token
   * @param fenceKey the key of the fence
   * @param keys the keys of the body
   * @param arguments the arguments of the body
   * @param redis runs the script
   * @param <T> the type of the body's result
   * @return the body's result
   * @throws StaleTokenException if a later writer has raised the fence; the body did not run
   * @throws IllegalStateException if {@code raiseShared} was not called
   */
  public <T> T checkShared(
      String name,
      long token,
      String grantId,
      String fenceKey,
      List<String> keys,
      List<String> arguments,
      Eval<T> redis) {
    try {
      return eval(sharedScript, name, token, grantId, fenceKey, keys, arguments, redis);
    } catch (StaleTokenException refused) {
      if (refused.newest() >= token) {
        throw refused;
      }
      throw notRaised(name, token, refused);
    }
  }

  private static IllegalStateException notRaised(String name, long token, RuntimeException cause) {
    return new IllegalStateException(
        "token " + token + " of " + name + " was not raised: call raiseShared once after the grant", cause);
  }

  private static <T> T eval(
      String script,
      String name,
      long token,
      String grantId,
      String fenceKey,
      List<String> keys,
      List<String> arguments,
      Eval<T> redis) {
    List<String> allKeys = new ArrayList<>(List.of(fenceKey));
    allKeys.addAll(keys);
    List<String> allArguments = new ArrayList<>(List.of(Long.toString(token), grantId));
    allArguments.addAll(arguments);
    try {
      return redis.eval(script, allKeys, allArguments);
    } catch (RuntimeException failed) {
      long newest = newest(failed);
      if (newest >= 0) {
        StaleTokenException stale = new StaleTokenException(name, token, newest);
        stale.addSuppressed(failed);
        throw stale;
      }
      throw failed;
    }
  }

  /** The newest token if this is the script's error, however a client wraps it; else -1. It is 0 for a new fence. */
  private static long newest(Throwable failed) {
    for (Throwable at = failed; at != null; at = at.getCause()) {
      String message = at.getMessage() == null ? "" : at.getMessage();
      int start = message.indexOf(STALE);
      if (start >= 0) {
        String digits = message.substring(start + STALE.length()).replaceFirst("[^0-9].*", "");
        return digits.isEmpty() ? -1 : Long.parseLong(digits);
      }
    }
    return -1;
  }
}
