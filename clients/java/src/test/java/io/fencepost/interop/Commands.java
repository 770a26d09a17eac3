package io.fencepost.interop;

import static io.fencepost.interop.Output.event;
import static io.fencepost.interop.Output.lower;
import static io.fencepost.interop.Requests.text;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import io.fencepost.client.ClientBuilder;
import io.fencepost.client.FencedLock;
import io.fencepost.client.FencepostClient;
import io.fencepost.client.LockEvent;
import io.fencepost.client.LockSet;
import io.fencepost.client.TokenStatus;
import io.fencepost.client.Tls;
import io.fencepost.client.Watch;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;

/** The operations of the line protocol. */
final class Commands {
  private final Output output;
  private final Map<String, FencedLock> locks = new ConcurrentHashMap<>();
  private final Map<String, LockSet> sets = new ConcurrentHashMap<>();
  private final Map<Long, CompletableFuture<?>> acquires = new ConcurrentHashMap<>();
  private volatile FencepostClient client;

  Commands(Output output) {
    this.output = output;
  }

  /** Starts an operation in the order of the lines, and returns what waits for its result. */
  Runnable start(String operation, JsonObject request) {
    try {
      Callable<JsonObject> work = switch (operation) {
        case "open" -> done(open(request));
        case "acquire" -> acquire(request);
        case "acquire_all" -> acquireAll(request);
        case "cancel" -> done(cancel(request));
        default -> () -> run(operation, request);
      };
      return () -> answer(request, work);
    } catch (RuntimeException refused) {
      return () -> output.error(request, refused);
    }
  }

  private void answer(JsonObject request, Callable<JsonObject> work) {
    try {
      JsonObject answer = work.call();
      if (answer != null) {
        output.ok(request, answer);
      }
    } catch (CompletionException failed) {
      output.error(request, failed.getCause());
    } catch (Exception failed) {
      output.error(request, failed);
    }
  }

  private static Callable<JsonObject> done(JsonObject answer) {
    return () -> answer;
  }

  private JsonObject run(String operation, JsonObject request) throws IOException {
    return switch (operation) {
      case "valid" -> valid(request);
      case "write" -> write(lock(request), path(request));
      case "increment" -> increment(request, path(request));
      case "release" -> release(request);
      case "convert" -> Shown.converted(lock(request), text(request, "mode"));
      case "describe" -> describe(request);
      case "observe" -> observe(request);
      case "waiters" -> Shown.waiters(client.waiters(text(request, "name")));
      case "get" -> Shown.info(client.get(text(request, "name")));
      case "list" -> list(request);
      case "watch" -> watch(request);
      case "check_token" -> checkToken(request);
      case "close" -> close();
      default -> throw new IllegalArgumentException("unknown operation " + operation);
    };
  }

  private JsonObject open(JsonObject request) {
    ClientBuilder builder = FencepostClient.builder();
    request.getAsJsonArray("servers").forEach(server -> builder.servers(server.getAsString()));
    String holder = text(request, "holder");
    if (holder != null) {
      builder.holder(holder);
    }
    Tls tls = Tls.defaults();
    if (text(request, "ca") != null) {
      tls = tls.caFile(Path.of(text(request, "ca")));
    }
    if (text(request, "cert") != null) {
      tls = tls.certificateFiles(Path.of(text(request, "cert")), Path.of(text(request, "key")));
    }
    String token = text(request, "token");
    if (token != null) {
      builder.bearerToken(() -> token);
    }
    client = builder.tls(tls).build();
    return new JsonObject();
  }

  private Callable<JsonObject> acquire(JsonObject request) {
    long id = request.get("id").getAsLong();
    CompletableFuture<FencedLock> future = Requests.lock(client, request).getAsync();
    acquires.put(id, future);
    future.whenComplete((lock, failure) -> {
      acquires.remove(id);
      if (failure == null) {
        granted(request, text(request, "lock"), lock);
      } else {
        output.error(request, failure);
      }
    });
    return () -> null;
  }

  private Callable<JsonObject> acquireAll(JsonObject request) {
    long id = request.get("id").getAsLong();
    CompletableFuture<LockSet> future = Requests.set(client, request).getAsync();
    acquires.put(id, future);
    future.whenComplete((locks, failure) -> {
      acquires.remove(id);
      if (failure != null) {
        output.error(request, failure);
        return;
      }
      sets.put(text(request, "lock"), locks);
      JsonObject tokens = new JsonObject();
      locks.tokens().forEach(tokens::addProperty);
      JsonObject answer = new JsonObject();
      answer.add("tokens", tokens);
      output.ok(request, answer);
    });
    return () -> null;
  }

  private void granted(JsonObject request, String label, FencedLock lock) {
    locks.put(label, lock);
    JsonObject answer = new JsonObject();
    answer.addProperty("token", lock.token());
    answer.addProperty("grant_id", lock.grantId());
    answer.addProperty("previous_end", lower(lock.previousEnd()));
    answer.addProperty("permits", lock.permits());
    answer.addProperty("slot", lock.slot().orElse(0));
    answer.addProperty("mode", lower(lock.mode()));
    output.ok(request, answer);
    lock.onLost(Runnable::run, loss -> {
      JsonObject event = event("lost");
      event.addProperty("lock", label);
      event.addProperty("reason", lower(loss.reason()));
      event.addProperty("successor_token", loss.successorToken() == 0 ? null : loss.successorToken());
      output.write(event);
    });
    lock.onAtRisk(Runnable::run, () -> {
      JsonObject event = event("at_risk");
      event.addProperty("lock", label);
      output.write(event);
    });
    lock.onWanted(Runnable::run, mode -> {
      JsonObject event = event("wanted");
      event.addProperty("lock", label);
      event.addProperty("mode", lower(mode));
      output.write(event);
    });
  }

  private JsonObject cancel(JsonObject request) {
    CompletableFuture<?> acquire = acquires.get(request.get("of").getAsLong());
    if (acquire != null) {
      acquire.cancel(false);
    }
    return new JsonObject();
  }

  private JsonObject valid(JsonObject request) {
    LockSet set = sets.get(text(request, "lock"));
    boolean valid = set != null ? set.isValid() : lock(request).isValid();
    Duration remaining = set != null ? set.remaining() : lock(request).remaining();
    JsonObject answer = new JsonObject();
    answer.addProperty("valid", valid);
    answer.addProperty("remaining_ms", remaining.toMillis());
    return answer;
  }

  private static JsonObject write(FencedLock lock, Path file) throws IOException {
    lock.check();
    Files.writeString(file, lock.token() + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    return new JsonObject();
  }

  private JsonObject increment(JsonObject request, Path file) throws IOException {
    LockSet set = sets.get(text(request, "lock"));
    if (set != null) {
      set.check();
    } else {
      lock(request).check();
    }
    long value = Files.exists(file) ? Long.parseLong(Files.readString(file).strip()) : 0;
    Files.writeString(file, (value + 1) + "\n");
    JsonObject answer = new JsonObject();
    answer.addProperty("value", value + 1);
    return answer;
  }

  private JsonObject release(JsonObject request) {
    JsonObject answer = new JsonObject();
    LockSet set = sets.get(text(request, "lock"));
    answer.addProperty("end", lower(set != null ? set.release() : lock(request).release()));
    return answer;
  }

  /** The client does not tell the number of the description: it is read from the lock. */
  private JsonObject describe(JsonObject request) {
    FencedLock lock = lock(request);
    String holder = text(request, "holder");
    if (holder == null) {
      lock.describe(Requests.metadata(request));
    } else {
      lock.describe(Requests.metadata(request), holder);
    }
    return Shown.description(client.get(lock.name()), lock.grantId());
  }

  private JsonObject observe(JsonObject request) {
    client.observe(text(request, "name"), lock -> output.write(Shown.observed(lock)));
    return new JsonObject();
  }

  private JsonObject list(JsonObject request) {
    JsonArray names = new JsonArray();
    client.list(text(request, "prefix")).forEach(lock -> names.add(lock.name()));
    JsonObject answer = new JsonObject();
    answer.add("names", names);
    return answer;
  }

  private JsonObject watch(JsonObject request) {
    Watch watch = client.watch(text(request, "prefix"), this::watched);
    watch.started().toCompletableFuture().join();
    return new JsonObject();
  }

  private void watched(LockEvent event) {
    JsonObject line = event("watch");
    line.addProperty("kind", lower(event.kind()));
    line.addProperty("name", event.name());
    line.addProperty("token", event.token());
    line.addProperty("holder", event.holder());
    output.write(line);
  }

  private JsonObject checkToken(JsonObject request) {
    TokenStatus status = client.checkToken(text(request, "name"), request.get("token").getAsLong());
    JsonObject answer = new JsonObject();
    answer.addProperty("status", lower(status.state()));
    return answer;
  }

  private JsonObject close() {
    client.close();
    return new JsonObject();
  }

  private FencedLock lock(JsonObject request) {
    FencedLock lock = locks.get(text(request, "lock"));
    if (lock == null) {
      throw new IllegalArgumentException("no lock " + text(request, "lock"));
    }
    return lock;
  }

  private static Path path(JsonObject request) {
    return Path.of(text(request, "file"));
  }
}
