package io.fencepost.client;

import io.grpc.CallCredentials;
import io.grpc.CallOptions;
import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.netty.channel.ChannelOption;
import io.grpc.netty.shaded.io.netty.channel.EventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.epoll.Epoll;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollDomainSocketChannel;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollEventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.unix.DomainSocketAddress;
import io.grpc.netty.shaded.io.netty.util.concurrent.DefaultThreadFactory;
import java.io.IOException;
import java.util.Objects;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** Makes connections to servers, and the credentials of their calls. */
final class Connector {
  /** The interval of pings, and how long one may be unanswered: how a dead connection without leases is noticed. */
  private static final long PING_INTERVAL_SECONDS = 10;

  private static final long PING_TIMEOUT_SECONDS = 5;

  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private final Tls tls;
  private final Supplier<String> token;
  private final Executor pool;

  /** {@code token} may be null. It is called on the pool, because it may wait. */
  Connector(Tls tls, Supplier<String> token, Executor pool) {
    this.tls = tls;
    this.token = token;
    this.pool = pool;
  }

  /** A channel whose callbacks run on the thread that reads its socket. It connects with its first call. */
  ManagedChannel channel(ServerAddress address) throws IOException {
    return builder(address).build();
  }

  /** A channel whose unused connection is closed after a time. */
  ManagedChannel channel(ServerAddress address, long idleSeconds) throws IOException {
    return builder(address).idleTimeout(idleSeconds, TimeUnit.SECONDS).build();
  }

  private NettyChannelBuilder builder(ServerAddress address) throws IOException {
    NettyChannelBuilder builder = address.isUnix() ? unix(address) : tcp(address);
    return builder
        .directExecutor()
        .disableRetry()
        .keepAliveTime(PING_INTERVAL_SECONDS, TimeUnit.SECONDS)
        .keepAliveTimeout(PING_TIMEOUT_SECONDS, TimeUnit.SECONDS);
  }

  @SuppressWarnings("deprecation") // the replacement is global: it would change other users of gRPC in the process
  private NettyChannelBuilder tcp(ServerAddress address) throws IOException {
    ChannelCredentials credentials = address.tls() ? tls.credentials() : InsecureChannelCredentials.create();
    NettyChannelBuilder builder = NettyChannelBuilder.forAddress(address.host(), address.port(), credentials)
        .nameResolverFactory(new HostNames(address))
        .withOption(ChannelOption.CONNECT_TIMEOUT_MILLIS, (int) Facts.CONNECT_TIMEOUT_MS);
    if (address.tls() && tls.serverName() != null) {
      builder.overrideAuthority(tls.serverName());
    }
    return builder;
  }

  private static NettyChannelBuilder unix(ServerAddress address) throws IOException {
    if (!Epoll.isAvailable()) {
      throw new IOException("Unix sockets need Linux on x86_64 or aarch64", Epoll.unavailabilityCause());
    }
    return NettyChannelBuilder.forAddress(
            new DomainSocketAddress(address.unixPath()), InsecureChannelCredentials.create())
        .overrideAuthority("localhost")
        // gRPC sets it for every channel, and Netty warns of it for a Unix socket.
        .withOption(ChannelOption.SO_KEEPALIVE, null)
        .channelType(EpollDomainSocketChannel.class)
        .eventLoopGroup(UnixLoop.GROUP);
  }

  /** Created with the first Unix socket, for all clients; its thread is a daemon thread. */
  private static final class UnixLoop {
    static final EventLoopGroup GROUP = new EpollEventLoopGroup(1, new DefaultThreadFactory("fencepost-unix", true));
  }

  CallOptions callOptions(ServerAddress address) {
    return token == null ? CallOptions.DEFAULT : CallOptions.DEFAULT.withCallCredentials(new BearerToken());
  }

  /**
   * Why a token cannot be sent, or null if it can. gRPC would leave out such a header and log its bytes. The text does
   * not show the token.
   */
  private static String faultOf(String token) {
    if (token.isEmpty()) {
      return "is empty";
    }
    for (int at = 0; at < token.length(); at++) {
      char c = token.charAt(at);
      if (c == '\n' || c == '\r') {
        return "has a line end at index " + at + " of " + token.length();
      }
      if (c <= ' ' || c > '~') {
        return "has a space, a control character or a character beyond ASCII at index " + at + " of " + token.length();
      }
    }
    return null;
  }

  private final class BearerToken extends CallCredentials {
    @Override
    public void applyRequestMetadata(RequestInfo request, Executor executor, MetadataApplier applier) {
      pool.execute(() -> {
        try {
          String current = Objects.requireNonNull(token.get(), "it returned null");
          String fault = faultOf(current);
          if (fault != null) {
            String message =
                "the bearer token " + fault + ", so it was not sent: the provider must return the token alone";
            applier.fail(Status.UNAUTHENTICATED.withDescription(message));
            return;
          }
          Metadata headers = new Metadata();
          headers.put(AUTHORIZATION, "Bearer " + current);
          applier.apply(headers);
        } catch (RuntimeException failed) {
          // Final for the call that needs the token. The next one asks again.
          String why = failed.getMessage() == null ? failed.toString() : failed.getMessage();
          applier.fail(Status.UNAUTHENTICATED.withDescription("no bearer token: " + why).withCause(failed));
        }
      });
    }
  }
}
