package io.fencepost.client;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Executor;
import java.util.function.Supplier;

/** Settings of a {@link FencepostClient}. */
public final class ClientBuilder {
  private final List<ServerAddress> servers = new ArrayList<>();
  private Tls tls;
  private Supplier<String> token;
  private String holder = Holders.defaultLabel();

  ClientBuilder() {}

  /**
   * Adds servers: replicas of one service. The client stays with one until it fails. Without this, {@code
   * FENCEPOST_SERVER} names them, else {@code 127.0.0.1:7420} is used.
   *
   * @param addresses each {@code host:port}, {@code host}, {@code http://host:port}, {@code https://host:port} for TLS,
   *     or {@code unix:/path}; an IPv6 address needs brackets; several may be separated by commas
   * @return this builder
   * @throws IllegalArgumentException if an address is not valid
   */
  public ClientBuilder servers(String... addresses) {
    for (String address : addresses) {
      servers.addAll(ServerAddress.list(Objects.requireNonNull(address, "server address must not be null")));
    }
    return this;
  }

  /**
   * TLS settings for {@code https://} servers. Without this, {@code FENCEPOST_CA}, {@code FENCEPOST_CERT} and {@code
   * FENCEPOST_KEY} name the files.
   *
   * @param settings the settings
   * @return this builder
   */
  public ClientBuilder tls(Tls settings) {
    this.tls = Objects.requireNonNull(settings, "tls must not be null");
    return this;
  }

  /**
   * Sends a bearer token with every call, in the header {@code authorization}. Only over TLS, a Unix socket or the
   * loopback interface.
   *
   * @param provider is called before each call and each stream, on a thread that may wait; if it throws, or returns
   *     null or a text that is no token (such as one with a line end), the call is not made, and ends with {@code
   *     UNAUTHENTICATED} and its message. The stream that keeps the locks is opened again after a pause
   * @return this builder
   */
  public ClientBuilder bearerToken(Supplier<String> provider) {
    this.token = Objects.requireNonNull(provider, "bearer token provider must not be null");
    return this;
  }

  /**
   * Sends the bearer token in a file, as {@link #bearerToken} does, in place of another provider. The file has the
   * token alone, and is read for each call and each stream: replace it before the token expires. Without this and
   * {@link #bearerToken}, {@code FENCEPOST_CREDENTIALS} names the file, if it is set.
   *
   * @param file the file
   * @return this builder
   */
  public ClientBuilder credentialsFile(Path file) {
    Objects.requireNonNull(file, "credentials file must not be null");
    return bearerToken(new CredentialsFile(file, file.toString()));
  }

  /**
   * The label that others see as the holder of this client's locks.
   *
   * @param label at most 256 bytes of UTF-8 without control characters; {@code user@host:pid} by default
   * @return this builder
   */
  public ClientBuilder holder(String label) {
    this.holder = Objects.requireNonNull(label, "holder must not be null");
    return this;
  }

  /**
   * Builds the client. It connects with the first call: no server needs to be running yet.
   *
   * @return the client; close it
   * @throws IllegalArgumentException if a setting is not valid, or a TLS file cannot be used
   */
  public FencepostClient build() {
    return build(BootClock.system());
  }

  /** The same with a clock of a test. */
  FencepostClient build(BootClock clock) {
    List<ServerAddress> addresses = servers.isEmpty() ? ServerAddress.list(fromEnvironment()) : List.copyOf(servers);
    Tls settings = tls == null ? Tls.fromEnvironment() : tls;
    Supplier<String> provider = token == null ? CredentialsFile.fromEnvironment() : token;
    for (ServerAddress address : addresses) {
      check(address, settings, provider != null);
    }
    Threads threads = new Threads();
    Executor pool = threads.pool();
    return new FencepostClient(clock, threads, new Connector(settings, provider, pool), addresses, holder);
  }

  private static String fromEnvironment() {
    String servers = System.getenv(Facts.ENVIRONMENT_SERVER);
    return servers == null || servers.isBlank() ? Facts.DEFAULT_SERVER : servers;
  }

  private void check(ServerAddress address, Tls settings, boolean sendsToken) {
    if (address.tls()) {
      try {
        settings.credentials();
      } catch (java.io.IOException unusable) {
        throw new IllegalArgumentException(unusable.getMessage(), unusable);
      }
    } else if (tls != null && !tls.isDefault() && !address.isUnix()) {
      throw new IllegalArgumentException(
          "TLS settings are given, but " + address + " is an address without TLS: write https://" + address);
    }
    if (sendsToken && !address.tls() && !address.isLocal()) {
      throw new IllegalArgumentException(
          "a bearer token would be sent to " + address + " in plain text: write https://" + address);
    }
  }
}
