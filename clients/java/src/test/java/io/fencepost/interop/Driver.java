package io.fencepost.interop;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Speaks the line protocol of tests/interop: one JSON object a line in, one a line out. */
public final class Driver {
  private Driver() {}

  /** Reads requests until the input ends. Returns without closing the client: its threads are daemons. */
  public static void main(String[] arguments) throws IOException {
    ExecutorService workers = Executors.newCachedThreadPool(task -> {
      Thread thread = new Thread(task);
      thread.setDaemon(true);
      return thread;
    });
    Output output = new Output();
    Commands commands = new Commands(output);
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      JsonObject request = JsonParser.parseString(line).getAsJsonObject();
      String operation = request.get("op").getAsString();
      if (operation.equals("exit")) {
        return;
      }
      // What must keep its order relative to later lines is started here; the rest waits on a worker.
      Runnable rest = commands.start(operation, request);
      workers.execute(rest);
    }
  }
}
