package io.fencepost.client;

import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/** The default label of grants: {@code user@host:pid}. */
final class Holders {
  private Holders() {}

  static String defaultLabel() {
    String user = System.getProperty("user.name", "unknown");
    String label = user + "@" + host() + ":" + ProcessHandle.current().pid();
    String printable = label.codePoints().filter(point -> !Character.isISOControl(point))
        .collect(StringBuilder::new, StringBuilder::appendCodePoint, StringBuilder::append).toString();
    while (printable.getBytes(StandardCharsets.UTF_8).length > Facts.HOLDER_BYTES_MAX) {
      printable = printable.substring(1);
    }
    return printable;
  }

  private static String host() {
    try {
      return Files.readString(Path.of("/proc/sys/kernel/hostname")).strip();
    } catch (IOException notLinux) {
      try {
        return InetAddress.getLocalHost().getHostName();
      } catch (UnknownHostException unnamed) {
        return "localhost";
      }
    }
  }
}
