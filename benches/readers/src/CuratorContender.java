package io.fencepost.readers;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's recipes on one ZooKeeper: one session for each client. */
final class CuratorContender implements Contender {
  private final String name;
  private final Server zookeeper;
  private final List<CuratorFramework> clients = new ArrayList<>();

  /** Without {@code sync}, ZooKeeper does not wait for its disk, as Redis does not. */
  CuratorContender(boolean sync) throws Exception {
    name = sync ? "Curator, ZooKeeper" : "Curator, ZooKeeper without sync";
    zookeeper = Server.zookeeper(sync);
    for (int n = 0; n < CLIENTS; n++) {
      CuratorFramework client = CuratorFrameworkFactory.newClient(
          "127.0.0.1:" + zookeeper.port(), new ExponentialBackoffRetry(100, 3));
      client.start();
      if (!client.blockUntilConnected(120, TimeUnit.SECONDS)) {
        throw new TimeoutException("ZooKeeper does not answer");
      }
      clients.add(client);
    }
  }

  @Override
  public String name() {
    return name;
  }

  /** Each thread has an instance of its own, as if it were a process. */
  private InterProcessReadWriteLock lock(String lock, int thread) {
    return new InterProcessReadWriteLock(clients.get(thread % CLIENTS), "/" + lock);
  }

  private static Acquire acquire(InterProcessMutex lock) {
    return () -> {
      if (!lock.acquire(WAIT_SECONDS, TimeUnit.SECONDS)) {
        throw new TimeoutException("not acquired");
      }
      return lock::release;
    };
  }

  @Override
  public Acquire reader(String lock, int thread) {
    return acquire(lock(lock, thread).readLock());
  }

  @Override
  public Acquire writer(String lock, int thread) {
    return acquire(lock(lock, thread).writeLock());
  }

  @Override
  public Acquire permit(String semaphore, int permits, int thread) {
    InterProcessSemaphoreV2 own =
        new InterProcessSemaphoreV2(clients.get(thread % CLIENTS), "/" + semaphore, permits);
    return () -> {
      Lease lease = own.acquire(WAIT_SECONDS, TimeUnit.SECONDS);
      if (lease == null) {
        throw new TimeoutException("not acquired");
      }
      return () -> own.returnLease(lease);
    };
  }

  @Override
  public List<Server> servers() {
    return List.of(zookeeper);
  }

  @Override
  public void close() {
    clients.forEach(CuratorFramework::close);
    zookeeper.close();
  }
}
