package io.fencepost.interop;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.fencepost.client.FencepostClient;
import io.fencepost.client.LockItem;
import io.fencepost.client.LockRequest;
import io.fencepost.client.LockSetRequest;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Consumer;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/** The fields of requests. */
final class Requests {
  private Requests() {}

  static LockRequest lock(FencepostClient client, JsonObject request) {
    LockRequest acquire = client.acquire(text(request, "name"));
    ifPresent(request, "ttl_ms", ttl -> acquire.ttl(millis(ttl)));
    ifPresent(request, "max_hold_ms", maxHold -> acquire.maxHold(millis(maxHold)));
    ifPresent(request, "min_hold_ms", minHold -> acquire.minHold(millis(minHold)));
    ifPresent(request, "lock_delay_ms", lockDelay -> acquire.lockDelay(millis(lockDelay)));
    ifPresent(request, "semaphore", limit -> acquire.semaphore(limit.getAsInt()));
    ifPresent(request, "permits", permits -> acquire.permits(permits.getAsInt()));
    ifPresent(request, "permit_limit_version", version -> acquire.permitLimitVersion(version.getAsLong()));
    ifPresent(request, "owner", owner -> acquire.owner(owner.getAsString()));
    ifPresent(request, "max_waiters", maxWaiters -> acquire.maxWaiters(maxWaiters.getAsInt()));
    ifPresent(request, "wait_ms", wait -> acquire.waitFor(millis(wait)));
    metadata(request).forEach(acquire::metadata);
    if (isSet(request, "shared")) {
      acquire.shared();
    }
    if (isSet(request, "tell_when_wanted")) {
      acquire.tellWhenWanted();
    }
    return acquire;
  }

  static LockSetRequest set(FencepostClient client, JsonObject request) {
    Stream<LockItem> exclusive = texts(request, "names").map(LockItem::exclusive);
    Stream<LockItem> shared = texts(request, "shared").map(LockItem::shared);
    LockSetRequest acquire = client.acquireAll(Stream.concat(exclusive, shared).toArray(LockItem[]::new));
    ifPresent(request, "ttl_ms", ttl -> acquire.ttl(millis(ttl)));
    ifPresent(request, "wait_ms", wait -> acquire.waitFor(millis(wait)));
    return acquire;
  }

  static Map<String, String> metadata(JsonObject request) {
    Map<String, String> metadata = new LinkedHashMap<>();
    ifPresent(request, "metadata", given -> given.getAsJsonObject().entrySet()
        .forEach(entry -> metadata.put(entry.getKey(), entry.getValue().getAsString())));
    return metadata;
  }

  static String text(JsonObject request, String key) {
    JsonElement value = request.get(key);
    return value == null || value.isJsonNull() ? null : value.getAsString();
  }

  private static Stream<String> texts(JsonObject request, String key) {
    JsonArray values = request.has(key) ? request.getAsJsonArray(key) : new JsonArray();
    return StreamSupport.stream(values.spliterator(), false).map(JsonElement::getAsString);
  }

  private static boolean isSet(JsonObject request, String key) {
    return request.has(key) && request.get(key).getAsBoolean();
  }

  private static Duration millis(JsonElement value) {
    return Duration.ofMillis(value.getAsLong());
  }

  private static void ifPresent(JsonObject request, String key, Consumer<JsonElement> use) {
    if (request.has(key)) {
      use.accept(request.get(key));
    }
  }
}
