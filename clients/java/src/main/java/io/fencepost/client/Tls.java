package io.fencepost.client;

import io.grpc.ChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;

/**
 * TLS settings for {@code https://} servers. By default the JVM's authorities are trusted, and the client shows no
 * certificate.
 *
 * <p>All files are PEM files; a key is unencrypted PKCS#8. They are read when the client is built, which reports files
 * that cannot be used, and again for each connection, so that a rotated certificate needs no restart.
 */
public final class Tls {
  private static final Tls DEFAULT = new Tls(null, null, null, null);

  private final Path authorities;
  private final Path certificate;
  private final Path key;
  private final String serverName;

  private Tls(Path authorities, Path certificate, Path key, String serverName) {
    this.authorities = authorities;
    this.certificate = certificate;
    this.key = key;
    this.serverName = serverName;
  }

  /**
   * The default settings.
   *
   * @return settings that trust the JVM's authorities
   */
  public static Tls defaults() {
    return DEFAULT;
  }

  /** The settings of the environment variables. */
  static Tls fromEnvironment() {
    return new Tls(
        path(Facts.ENVIRONMENT_CA), path(Facts.ENVIRONMENT_CERT), path(Facts.ENVIRONMENT_KEY), null);
  }

  private static Path path(String variable) {
    String value = System.getenv(variable);
    return value == null || value.isEmpty() ? null : Path.of(value);
  }

  /**
   * Trusts the certificate authorities in this file in place of the JVM's.
   *
   * @param file a PEM file with one or more certificates
   * @return the changed settings
   */
  public Tls caFile(Path file) {
    return new Tls(Objects.requireNonNull(file, "CA file must not be null"), certificate, key, serverName);
  }

  /**
   * Shows a certificate to servers that ask for one.
   *
   * @param certificateFile a PEM file with the certificate and its intermediates
   * @param keyFile a PEM file with the private key in PKCS#8, unencrypted
   * @return the changed settings
   */
  public Tls certificateFiles(Path certificateFile, Path keyFile) {
    return new Tls(
        authorities,
        Objects.requireNonNull(certificateFile, "certificate file must not be null"),
        Objects.requireNonNull(keyFile, "key file must not be null"),
        serverName);
  }

  /**
   * Expects the server's certificate to be valid for this name, in place of the host of its address.
   *
   * @param name the name
   * @return the changed settings
   */
  public Tls serverName(String name) {
    return new Tls(authorities, certificate, key, Objects.requireNonNull(name, "server name must not be null"));
  }

  String serverName() {
    return serverName;
  }

  boolean showsCertificate() {
    return certificate != null;
  }

  boolean isDefault() {
    return authorities == null && certificate == null && key == null && serverName == null;
  }

  /** Reads the files. */
  ChannelCredentials credentials() throws IOException {
    if ((certificate == null) != (key == null)) {
      throw new IOException("a client certificate needs both files: the certificate and the key");
    }
    TlsChannelCredentials.Builder builder = TlsChannelCredentials.newBuilder();
    if (authorities != null) {
      builder.trustManager(readable(authorities));
    }
    if (certificate != null) {
      builder.keyManager(readable(certificate), readable(key));
    }
    return builder.build();
  }

  private static File readable(Path file) throws TlsFileException {
    try {
      if (!Files.readString(file).contains("-----BEGIN ")) {
        throw new IOException("it is not a PEM file");
      }
      return file.toFile();
    } catch (IOException unreadable) {
      throw new TlsFileException(file, unreadable);
    }
  }
}
