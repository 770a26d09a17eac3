package io.fencepost.client;

import io.grpc.netty.shaded.io.netty.channel.EventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.IoHandlerFactory;
import io.grpc.netty.shaded.io.netty.channel.MultiThreadIoEventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.epoll.Epoll;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollIoHandler;
import io.grpc.netty.shaded.io.netty.channel.nio.NioIoHandler;
import io.grpc.netty.shaded.io.netty.util.concurrent.DefaultThreadFactory;
import java.util.concurrent.TimeUnit;

/** The daemon threads that read and write the sockets of one client, made with its first connection. */
final class SocketThreads {
  /** One for the session, one for other calls. */
  private static final int THREADS = 2;

  /** The threads end when they had nothing to do for so long: channels are closed in the background. */
  private static final long QUIET_SECONDS = 1;

  private static final long CLOSE_SECONDS_MAX = 15;

  private EventLoopGroup group;
  private boolean closed;

  synchronized EventLoopGroup group() {
    if (closed) {
      throw new ClientClosedException();
    }
    if (group == null) {
      IoHandlerFactory sockets = Epoll.isAvailable() ? EpollIoHandler.newFactory() : NioIoHandler.newFactory();
      group = new MultiThreadIoEventLoopGroup(THREADS, new DefaultThreadFactory("fencepost-socket", true), sockets);
    }
    return group;
  }

  synchronized void close() {
    closed = true;
    if (group != null) {
      group.shutdownGracefully(QUIET_SECONDS, CLOSE_SECONDS_MAX, TimeUnit.SECONDS);
    }
  }
}
