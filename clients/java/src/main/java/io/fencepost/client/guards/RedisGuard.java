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
 * <p>On Redis Cluster the fence and the data must be in one slot: give their keys the same hash tag.
 */
public final class RedisGuard {
  /** What Redis answers a stale token with; the newest token follows. */
  private static final String STALE = "STALE ";

  private final String script;

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
   * Compares the token of a lock with the fence, raises the fence and runs the body, in one step.
   *
   * @param lock the lock; its token and grant id count, whether it is still valid or not
   * @param fenceKey the key of the fence
   * @param keys the keys of the body
   * @param arguments the arguments of the body
   * @param redis runs the script, such as {@code jedis::eval}
   * @param <T> the type of the body's result
   * @return the body's result
   * @throws StaleTokenException if Redis has seen a newer token; nothing was written
   */
  public <T> T run(FencedLock lock, String fenceKey, List<String> keys, List<String> arguments, Eval<T> redis) {
    return run(lock.name(), lock.token(), lock.grantId(), fenceKey, keys, arguments, redis);
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
    List<String> allKeys = new ArrayList<>(List.of(fenceKey));
    allKeys.addAll(keys);
    List<String> allArguments = new ArrayList<>(List.of(Long.toString(token), grantId));
    allArguments.addAll(arguments);
    try {
      return redis.eval(script, allKeys, allArguments);
    } catch (RuntimeException failed) {
      long newest = newest(failed);
      if (newest > 0) {
        StaleTokenException stale = new StaleTokenException(name, token, newest);
        stale.addSuppressed(failed);
        throw stale;
      }
      throw failed;
    }
  }

  /** The newest token if this is the script's error, however a client wraps it; else 0. */
  private static long newest(Throwable failed) {
    for (Throwable at = failed; at != null; at = at.getCause()) {
      String message = at.getMessage() == null ? "" : at.getMessage();
      int start = message.indexOf(STALE);
      if (start >= 0) {
        String digits = message.substring(start + STALE.length()).replaceFirst("[^0-9].*", "");
        return digits.isEmpty() ? 0 : Long.parseLong(digits);
      }
    }
    return 0;
  }
}
