package io.fencepost.client;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** A certificate authority in a folder, made with openssl. */
public final class Certificates {
  /** The files of a certificate and its key. */
  public record Issued(Path certificate, Path key) {}

  private final Path folder;

  public Certificates(Path folder) throws IOException, InterruptedException {
    this.folder = Files.createDirectories(folder);
    openssl("req", "-x509", "-subj", "/CN=" + folder.getFileName(), "-keyout", folder.resolve("ca.key"), "-out", ca());
  }

  public Path ca() {
    return folder.resolve("ca.pem");
  }

  /** Issues a certificate for these names, such as {@code DNS:localhost}. */
  public Issued issue(String label, String names) throws IOException, InterruptedException {
    Issued issued = new Issued(folder.resolve(label + ".pem"), folder.resolve(label + ".key"));
    openssl("req", "-x509", "-subj", "/CN=" + label, "-keyout", issued.key, "-out", issued.certificate,
        "-CA", ca(), "-CAkey", folder.resolve("ca.key"),
        "-addext", "basicConstraints=critical,CA:FALSE", "-addext", "subjectAltName=" + names);
    return issued;
  }

  /** The same with a certificate that has expired. */
  public Issued issueExpired(String label, String names) throws IOException, InterruptedException {
    Issued issued = new Issued(folder.resolve(label + ".pem"), folder.resolve(label + ".key"));
    Path request = folder.resolve(label + ".csr");
    openssl("req", "-new", "-subj", "/CN=" + label, "-keyout", issued.key, "-out", request,
        "-addext", "subjectAltName=" + names);
    openssl("x509", "-req", "-in", request, "-out", issued.certificate, "-CA", ca(), "-CAkey",
        folder.resolve("ca.key"), "-copy_extensions", "copy", "-days", "-1");
    return issued;
  }

  private void openssl(Object... arguments) throws IOException, InterruptedException {
    List<String> command = new ArrayList<>(List.of("openssl"));
    for (Object argument : arguments) {
      command.add(argument.toString());
    }
    if (arguments[0].equals("req")) {
      command.addAll(List.of("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-days", "2"));
    }
    Path log = folder.resolve("openssl.log");
    Process process =
        new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log.toFile()).start();
    if (process.waitFor() != 0) {
      throw new IOException("openssl failed: " + Files.readString(log));
    }
  }
}
