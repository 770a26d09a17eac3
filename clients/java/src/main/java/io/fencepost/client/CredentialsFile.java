package io.fencepost.client;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.function.Supplier;

/** A file with a bearer token alone. It is read for each call and each stream, because others may replace it. */
final class CredentialsFile implements Supplier<String> {
  /** More than the headers of a request may have. */
  private static final int BYTES_MAX = 64 * 1024;

  private final Path file;

  /** Who names the file; for errors. */
  private final String named;

  CredentialsFile(Path file, String named) {
    this.file = file;
    this.named = named;
  }

  /** The file that the environment names; null if it names none. */
  static CredentialsFile fromEnvironment() {
    String file = System.getenv(Facts.ENVIRONMENT_CREDENTIALS);
    return file == null || file.isEmpty()
        ? null
        : new CredentialsFile(Path.of(file), Facts.ENVIRONMENT_CREDENTIALS + " names " + file);
  }

  /** The token, without the line end after it. A text that is no token is refused where it would be sent. */
  @Override
  public String get() {
    byte[] bytes;
    try (InputStream input = Files.newInputStream(file)) {
      bytes = input.readNBytes(BYTES_MAX + 1);
    } catch (NoSuchFileException missing) {
      throw unusable("no such file", missing);
    } catch (IOException unreadable) {
      throw unusable(unreadable.toString(), unreadable);
    }
    String token = new String(bytes, StandardCharsets.UTF_8).strip();
    if (bytes.length > BYTES_MAX || token.isEmpty()) {
      throw unusable(token.isEmpty() ? "it is empty" : "it has more than " + BYTES_MAX + " bytes", null);
    }
    return token;
  }

  private IllegalStateException unusable(String why, IOException cause) {
    return new IllegalStateException(named + ": " + why, cause);
  }
}
