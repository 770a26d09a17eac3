package io.fencepost.client.guards;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;

/** Real PostgreSQL, MariaDB and Redis servers, started by clients/stores.py. */
final class Stores implements AutoCloseable {
  private final Process process;
  private final JsonObject addresses;

  private Stores(Process process, JsonObject addresses) {
    this.process = process;
    this.addresses = addresses;
  }

  static Stores start() throws IOException {
    String program = Path.of(System.getProperty("repository.root"), "clients", "stores.py").toString();
    Process process =
        new ProcessBuilder("python3", program).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    String line = process.inputReader(StandardCharsets.UTF_8).readLine();
    if (line == null) {
      throw new IOException("the stores did not start");
    }
    return new Stores(process, JsonParser.parseString(line).getAsJsonObject());
  }

  /** The JDBC driver takes user and password apart from the rest. */
  String postgres() {
    URI uri = URI.create(addresses.get("postgres").getAsString());
    List<String> user = List.of(uri.getUserInfo().split(":", 2));
    return "jdbc:postgresql://" + uri.getHost() + ":" + uri.getPort() + uri.getPath()
        + "?user=" + user.get(0) + "&password=" + user.get(1);
  }

  String mariadb() {
    JsonObject mysql = addresses.getAsJsonObject("mysql");
    return "jdbc:mariadb://" + mysql.get("host").getAsString() + ":" + mysql.get("port").getAsInt() + "/"
        + mysql.get("database").getAsString() + "?user=" + mysql.get("user").getAsString()
        + "&password=" + mysql.get("password").getAsString();
  }

  String redis() {
    return addresses.get("redis").getAsString();
  }

  /** The end of its input stops the stores. */
  @Override
  public void close() throws IOException, InterruptedException {
    process.getOutputStream().close();
    process.waitFor();
  }
}
