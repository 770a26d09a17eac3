package io.fencepost.client;

import io.grpc.CallCredentials;
import io.grpc.CallOptions;
import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.netty.channel.Channel;
import io.grpc.netty.shaded.io.netty.channel.ChannelOption;
import io.grpc.netty.shaded.io.netty.channel.epoll.Epoll;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollDomainSocketChannel;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollSocketChannel;
import io.grpc.netty.shaded.io.netty.channel.socket.nio.NioSocketChannel;
import io.grpc.netty.shaded.io.netty.channel.unix.DomainSocketAddress;
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
  private final SocketThreads threads = new SocketThreads();

  /** {@code token} may be null. It is called on the pool, because it may wait. */
  Connector(Tls tls, Supplier<String> token, Executor pool) {
    this.tls = tls;
    this.token = token;
    this.pool = pool;
  }

  /** A channel whose callbacks run on the thread that reads its socket. It connects with its first call. */
  Connection connection(ServerAddress address) throws IOException {
    Greeting greeting = new Greeting(!address.tls());
    ManagedChannel channel = builder(address, greeting).build();
    return new Connection(address, channel, greeting, tls.showsCertificate());
  }

  /** The same with a channel whose unused connection is closed after a time. */
  Connection connection(ServerAddress address, long idleSeconds) throws IOException {
    Greeting greeting = new Greeting(!address.tls());
    ManagedChannel channel = builder(address, greeting).idleTimeout(idleSeconds, TimeUnit.SECONDS).build();
    return new Connection(address, channel, greeting, tls.showsCertificate());
  }

  private NettyChannelBuilder builder(ServerAddress address, Greeting greeting) throws IOException {
    NettyChannelBuilder builder = address.isUnix() ? unix(address) : tcp(address);
    return builder
        .eventLoopGroup(threads.group())
        .channelFactory(() -> watched(address.isUnix(), greeting))
        .proxyDetector(target -> null) // whatever the settings of the JVM: they are meant for the web
        .directExecutor()
        .disableRetry()
        .keepAliveTime(PING_INTERVAL_SECONDS, TimeUnit.SECONDS)
        .keepAliveTimeout(PING_TIMEOUT_SECONDS, TimeUnit.SECONDS);
  }

  @SuppressWarnings("deprecation") // the replacement is global: it would change other users of gRPC in the process
  private NettyChannelBuilder tcp(ServerAddress address) throws IOException {
    ChannelCredentials credentials = address.tls() ? tls.credentials() : InsecureChannelCredentials.create();
    NettyChannelBuilder builder = NettyChannelBuilder.forAddress(address.host(), address.port(), credentials)
        .nameResolverFactory(new HostNames(address, pool))
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
        .withOption(ChannelOption.SO_KEEPALIVE, null);
  }

  private static Channel watched(boolean unix, Greeting greeting) {
    Channel channel;
    if (unix) {
      channel = new EpollDomainSocketChannel();
    } else {
      channel = Epoll.isAvailable() ? new EpollSocketChannel() : new NioSocketChannel();
    }
    channel.pipeline().addFirst(greeting.watch());
    return channel;
  }

  /** Ends the threads, when all channels are shut down. */
  void close() {
    threads.close();
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
