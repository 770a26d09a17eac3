package io.fencepost.client.testing;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.NoSuchElementException;

/** The port of a server that takes orders to fail: {@code fencepost serve --test-faults}. */
record Faults(String address) {
  /** A busy machine may take long, and a server that is paused does not answer at all. */
  private static final Duration TIMEOUT = Duration.ofSeconds(10);

  /** The port is on this machine, where a web proxy would not find it. */
  private static final HttpClient HTTP = HttpClient.newBuilder()
      .version(HttpClient.Version.HTTP_1_1)
      .proxy(HttpClient.Builder.NO_PROXY)
      .connectTimeout(TIMEOUT)
      .build();

  private static final int NO_CONTENT = 204;
  private static final int BAD_REQUEST = 400;
  private static final int NOT_FOUND = 404;

  /** Sends an order, and throws what its answer says unless it was carried out. */
  void order(String path, String body) throws IOException, InterruptedException {
    HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + address + path))
        .timeout(TIMEOUT)
        .POST(HttpRequest.BodyPublishers.ofString(body))
        .build();
    HttpResponse<String> answer = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
    String text = answer.body().strip();
    switch (answer.statusCode()) {
      case NO_CONTENT -> {}
      case NOT_FOUND -> throw new NoSuchElementException(text);
      case BAD_REQUEST -> throw new IllegalArgumentException(text);
      default -> throw new IOException("the server answered " + path + " with " + answer.statusCode() + ": " + text);
    }
  }
}
