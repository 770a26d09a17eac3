package io.fencepost.client.testing;

import io.fencepost.v1.LeaseEnd;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.ServerCredentials;
import io.grpc.ServerInterceptor;
import io.grpc.ServerInterceptors;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.NoSuchElementException;
import java.util.concurrent.TimeUnit;

/**
 * A lock server inside the process, for tests that have no binary: real clients connect to it, and it fails when it is
 * told to.
 *
 * <pre>{@code
 * try (FakeServer server = FakeServer.start();
 *     FencepostClient client = FencepostClient.connect(server.address())) {
 *   FencedLock lock = client.acquire("orders/42").get();
 *   server.lose("orders/42");
 *   lock.lost().toCompletableFuture().get();
 * }
 * }</pre>
 *
 * <p>It grants locks in order, keeps, expires and lists them, and serves {@code watch} and {@code checkToken}. It does
 * not check the limits of requests and does not drain; {@link FencepostServer} does. All methods may be called by any
 * thread.
 */
public final class FakeServer implements AutoCloseable {
  /** Clients ping idle connections; by default a server of gRPC ends a connection for that. */
  private static final long PING_INTERVAL_MIN_SECONDS = 1;

  private final FakeLoop loop;
  private final FakeService service;
  private final Server server;

  private FakeServer(FakeLoop loop, FakeService service, Server server) {
    this.loop = loop;
    this.service = service;
    this.server = server;
  }

  /**
   * Starts a server on a free port of the loopback interface.
   *
   * @return the server; close it
   * @throws IOException if it cannot listen
   */
  public static FakeServer start() throws IOException {
    return start(InsecureServerCredentials.create());
  }

  static FakeServer start(ServerCredentials credentials, ServerInterceptor... interceptors) throws IOException {
    FakeLoop loop = new FakeLoop();
    FakeService service = new FakeService(loop);
    InetSocketAddress free = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
    try {
      Server server = NettyServerBuilder.forAddress(free, credentials)
          .directExecutor() // the calls only hand over to the loop
          .permitKeepAliveTime(PING_INTERVAL_MIN_SECONDS, TimeUnit.SECONDS)
          .permitKeepAliveWithoutCalls(true)
          .intercept(new EarlyHeaders(loop))
          .addService(ServerInterceptors.intercept(service, interceptors))
          .build()
          .start();
      return new FakeServer(loop, service, server);
    } catch (IOException | RuntimeException failed) {
      loop.close();
      throw failed;
    }
  }

  /**
   * The server's address.
   *
   * @return host and port, for {@link io.fencepost.client.FencepostClient#connect}
   */
  public String address() {
    return "127.0.0.1:" + server.getPort();
  }

  /** From now on nothing is answered, and connections stay open: leases that are not renewed are lost. */
  public void pause() {
    loop.runNow(loop::pause);
  }

  /** Ends a pause. Leases whose time was over meanwhile have expired. */
  public void resume() {
    loop.runNow(() -> {
      service.locks().expire();
      loop.resume();
    });
  }

  /**
   * Revokes the lease of a lock, as an operator does.
   *
   * @param name the lock's name
   * @throws NoSuchElementException if nobody holds the lock
   */
  public void lose(String name) {
    loop.runNow(() -> {
      FakeLease lease = service.locks().held(name);
      if (lease == null) {
        throw new NoSuchElementException("nobody holds lock \"" + name + "\"");
      }
      service.locks().end(lease, LeaseEnd.LEASE_END_REVOKED);
    });
  }

  /** The next acquire or release takes effect, but its answer is lost, and the session with it. */
  public void dropReply() {
    loop.runNow(service::dropReply);
  }

  /** Ends the server and its connections. Idempotent. */
  @Override
  public void close() {
    server.shutdownNow();
    try {
      server.awaitTermination();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
    loop.close();
  }
}
