package io.fencepost.interop;

import static io.fencepost.interop.Output.event;
import static io.fencepost.interop.Output.lower;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import io.fencepost.client.FencedLock;
import io.fencepost.client.HolderInfo;
import io.fencepost.client.LockInfo;
import io.fencepost.client.WaiterInfo;
import java.util.stream.Stream;

/** Conversions, and what others see of a lock. */
final class Shown {
  private Shown() {}

  static JsonObject converted(FencedLock lock, String mode) {
    boolean converted = true;
    if (mode.equals("shared")) {
      lock.downgrade();
    } else {
      converted = lock.tryUpgrade();
    }
    JsonObject answer = new JsonObject();
    answer.addProperty("converted", converted);
    answer.addProperty("token", lock.token());
    answer.addProperty("mode", lower(lock.mode()));
    return answer;
  }

  static JsonObject description(LockInfo lock, String grantId) {
    HolderInfo own = lock.holders().stream()
        .filter(holder -> holder.grantId().equals(grantId))
        .findFirst()
        .orElseThrow(() -> new IllegalArgumentException(lock.name() + " is not held any more"));
    JsonObject answer = new JsonObject();
    answer.addProperty("number", own.description());
    return answer;
  }

  static JsonObject waiters(Stream<WaiterInfo> waiters) {
    JsonArray shown = new JsonArray();
    waiters.forEach(waiter -> shown.add(waiter(waiter)));
    JsonObject answer = new JsonObject();
    answer.add("waiters", shown);
    return answer;
  }

  private static JsonObject waiter(WaiterInfo waiter) {
    JsonObject shown = new JsonObject();
    shown.addProperty("holder", waiter.holder());
    shown.addProperty("owner", waiter.owner());
    shown.addProperty("mode", lower(waiter.mode()));
    return shown;
  }

  static JsonObject info(LockInfo lock) {
    JsonObject answer = new JsonObject();
    addFirst(answer, lock);
    answer.addProperty("waiters", lock.waiters());
    return answer;
  }

  static JsonObject observed(LockInfo lock) {
    JsonObject event = event("observed");
    event.addProperty("name", lock.name());
    event.addProperty("holders", lock.holderCount());
    addFirst(event, lock);
    boolean free = lock.holders().isEmpty();
    event.add("metadata", free ? null : metadata(lock.holders().get(0)));
    event.addProperty("description", free ? 0 : lock.holders().get(0).description());
    return event;
  }

  private static JsonObject metadata(HolderInfo holder) {
    JsonObject metadata = new JsonObject();
    holder.metadata().forEach(metadata::addProperty);
    return metadata;
  }

  private static void addFirst(JsonObject line, LockInfo lock) {
    boolean free = lock.holders().isEmpty();
    line.addProperty("holder", free ? null : lock.holders().get(0).holder());
    line.addProperty("token", free ? 0 : lock.holders().get(0).token());
  }
}
