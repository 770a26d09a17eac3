package io.fencepost.readers;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson: clients with one connection for commands, and one on which they hear that a lock is free. */
final class RedissonContender implements Contender {
  /** Long enough for a busy machine: a reply that is not awaited may leave a lock held that nobody knows of. */
  private static final int TIMEOUT_MILLIS = 30_000;

  private final Server redis;
  private final List<RedissonClient> clients = new ArrayList<>();

  RedissonContender() throws Exception {
    redis = Server.redis();
    for (int n = 0; n < CLIENTS; n++) {
      Config config = new Config();
      config.useSingleServer()
          .setAddress("redis://127.0.0.1:" + redis.port())
          .setConnectionPoolSize(1)
          .setConnectionMinimumIdleSize(1)
          .setSubscriptionConnectionPoolSize(1)
          .setSubscriptionConnectionMinimumIdleSize(1)
          .setSubscriptionTimeout(TIMEOUT_MILLIS)
          .setTimeout(TIMEOUT_MILLIS);
      clients.add(Redisson.create(config));
    }
  }

  @Override
  public String name() {
    return "Redisson, Redis";
  }

  private RedissonClient client(int thread) {
    return clients.get(thread % CLIENTS);
  }

  private static Acquire acquire(RLock lock) {
    return () -> {
      if (!lock.tryLock(WAIT_SECONDS, TimeUnit.SECONDS)) {
        throw new TimeoutException("not acquired");
      }
      return lock::unlock;
    };
  }

  @Override
  public Acquire reader(String lock, int thread) {
    return acquire(client(thread).getReadWriteLock(lock).readLock());
  }

  @Override
  public Acquire writer(String lock, int thread) {
    return acquire(client(thread).getReadWriteLock(lock).writeLock());
  }

  @Override
  public Acquire permit(String semaphore, int permits, int thread) {
    RPermitExpirableSemaphore own = client(thread).getPermitExpirableSemaphore(semaphore);
    own.trySetPermits(permits);
    return () -> {
      String id = own.tryAcquire(WAIT_SECONDS, TTL_SECONDS, TimeUnit.SECONDS);
      if (id == null) {
        throw new TimeoutException("not acquired");
      }
      return () -> own.release(id);
    };
  }

  @Override
  public List<Server> servers() {
    return List.of(redis);
  }

  @Override
  public void close() {
    clients.forEach(RedissonClient::shutdown);
    redis.close();
  }
}
