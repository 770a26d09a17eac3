package io.fencepost.readers;

import io.fencepost.client.FencedLock;
import io.fencepost.client.FencepostClient;
import io.fencepost.client.LockRequest;
import io.fencepost.client.testing.FencepostServer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** Fencepost: one session for each client. */
final class FencepostContender implements Contender {
  private final String name;
  private final FencepostServer server;
  private final List<Server> servers = new ArrayList<>();
  private final List<FencepostClient> clients = new ArrayList<>();

  private FencepostContender(String name, FencepostServer server) {
    this.name = name;
    this.server = server;
    servers.add(new Server("fencepost", server.process(), 0));
    for (int n = 0; n < CLIENTS; n++) {
      clients.add(FencepostClient.connect(server.address()));
    }
  }

  static FencepostContender onRedis() throws Exception {
    Server redis = Server.redis();
    FencepostServer server = FencepostServer.start("--store", "redis://127.0.0.1:" + redis.port());
    FencepostContender contender = new FencepostContender("Fencepost, Redis", server);
    contender.servers.add(redis);
    return contender;
  }

  static FencepostContender inMemory() throws Exception {
    return new FencepostContender("Fencepost, memory", FencepostServer.start("--store", "memory:"));
  }

  @Override
  public String name() {
    return name;
  }

  private LockRequest request(String lock, int thread) {
    return clients.get(thread % CLIENTS).acquire(lock)
        .ttl(Duration.ofSeconds(TTL_SECONDS))
        .waitFor(Duration.ofSeconds(WAIT_SECONDS));
  }

  @Override
  public Acquire reader(String lock, int thread) {
    return () -> request(lock, thread).shared().get();
  }

  @Override
  public Acquire writer(String lock, int thread) {
    return () -> request(lock, thread).get();
  }

  @Override
  public Acquire permit(String semaphore, int permits, int thread) {
    return () -> request(semaphore, thread).semaphore(permits).get();
  }

  /** Acquires the lock as so many readers. */
  List<FencedLock> hold(String lock, int readers) {
    List<CompletableFuture<FencedLock>> held = new ArrayList<>();
    for (int reader = 0; reader < readers; reader++) {
      held.add(request(lock, reader).shared().getAsync());
    }
    return held.stream().map(CompletableFuture::join).toList();
  }

  @Override
  public List<Server> servers() {
    return servers;
  }

  @Override
  public void close() {
    clients.forEach(FencepostClient::close);
    server.close();
    servers.forEach(Server::close);
  }
}
