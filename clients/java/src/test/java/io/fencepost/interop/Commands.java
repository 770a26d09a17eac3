package io.fencepost.interop;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.fencepost.client.ClientBuilder;
import io.fencepost.client.FencedLock;
import io.fencepost.client.FencepostClient;
import io.fencepost.client.LockEvent;
import io.fencepost.client.LockInfo;
import io.fencepost.client.LockRequest;
import io.fencepost.client.LockSet;
import io.fencepost.client.LockSetRequest;
import io.fencepost.client.TokenStatus;
import io.fencepost.client.Tls;
import io.fencepost.client.Watch;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
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
      case "get" -> get(request);
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
    LockRequest acquire = client.acquire(text(request, "name"));
    if (request.has("ttl_ms")) {
      acquire.ttl(Duration.ofMillis(request.get("ttl_ms").getAsLong()));
    }
    if (request.has("max_hold_ms")) {
      acquire.maxHold(Duration.ofMillis(request.get("max_hold_ms").getAsLong()));
    }
    if (request.has("min_hold_ms")) {
      acquire.minHold(Duration.ofMillis(request.get("min_hold_ms").getAsLong()));
    }
    if (request.has("lock_delay_ms")) {
      acquire.lockDelay(Duration.ofMillis(request.get("lock_delay_ms").getAsLong()));
    }
    if (request.has("shared") && request.get("shared").getAsBoolean()) {
      acquire.shared();
    }
    if (request.has("semaphore")) {
      acquire.semaphore(request.get("semaphore").getAsInt());
    }
    if (request.has("permits")) {
      acquire.permits(request.get("permits").getAsInt());
    }
    if (request.has("permit_limit_version")) {
      acquire.permitLimitVersion(request.get("permit_limit_version").getAsLong());
    }
    if (request.has("wait_ms")) {
      acquire.waitFor(Duration.ofMillis(request.get("wait_ms").getAsLong()));
    }
    if (request.has("metadata")) {
      for (Map.Entry<String, JsonElement> entry : request.getAsJsonObject("metadata").entrySet()) {
        acquire.metadata(entry.getKey(), entry.getValue().getAsString());
      }
    }
    long id = request.get("id").getAsLong();
    CompletableFuture<FencedLock> future = acquire.getAsync();
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
    List<String> names = new ArrayList<>();
    request.getAsJsonArray("names").forEach(name -> names.add(name.getAsString()));
    LockSetRequest acquire = client.acquireAll(names);
    if (request.has("ttl_ms")) {
      acquire.ttl(Duration.ofMillis(request.get("ttl_ms").getAsLong()));
    }
    if (request.has("wait_ms")) {
      acquire.waitFor(Duration.ofMillis(request.get("wait_ms").getAsLong()));
    }
    long id = request.get("id").getAsLong();
    CompletableFuture<LockSet> future = acquire.getAsync();
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

  private JsonObject get(JsonObject request) {
    LockInfo lock = client.get(text(request, "name"));
    JsonObject answer = new JsonObject();
    boolean free = lock.holders().isEmpty();
    answer.addProperty("holder", free ? null : lock.holders().get(0).holder());
    answer.addProperty("token", free ? 0 : lock.holders().get(0).token());
    answer.addProperty("waiters", lock.waiters());
    return answer;
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

  private static String text(JsonObject request, String key) {
    JsonElement value = request.get(key);
    return value == null || value.isJsonNull() ? null : value.getAsString();
  }

  private static String lower(Enum<?> value) {
    return value.name().toLowerCase(Locale.ROOT);
  }

  private static JsonObject event(String name) {
    JsonObject event = new JsonObject();
    event.addProperty("event", name);
    return event;
  }
}
