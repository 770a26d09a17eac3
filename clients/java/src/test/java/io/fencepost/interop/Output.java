package io.fencepost.interop;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import io.fencepost.client.ClientClosedException;
import io.fencepost.client.ContendedException;
import io.fencepost.client.HolderInfo;
import io.fencepost.client.LockLostException;
import io.fencepost.client.NotAllAcquiredException;
import io.fencepost.client.OutcomeUnknownException;
import io.fencepost.client.RefusedException;
import io.fencepost.client.TimedOutException;
import io.fencepost.client.UnavailableException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CancellationException;

/** Writes answers and events, one a line. */
final class Output {
  private static final Gson GSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
  private final PrintStream stream = new PrintStream(System.out, true, StandardCharsets.UTF_8);

  synchronized void write(JsonObject line) {
    stream.println(GSON.toJson(line));
  }

  static String lower(Enum<?> value) {
    return value.name().toLowerCase(Locale.ROOT);
  }

  static JsonObject event(String name) {
    JsonObject event = new JsonObject();
    event.addProperty("event", name);
    return event;
  }

  void ok(JsonObject request, JsonObject answer) {
    answer.add("id", request.get("id"));
    answer.addProperty("ok", true);
    write(answer);
  }

  void error(JsonObject request, Throwable error) {
    JsonObject answer = new JsonObject();
    answer.add("id", request.get("id"));
    answer.addProperty("ok", false);
    answer.addProperty("message", String.valueOf(error.getMessage()));
    describe(answer, error);
    write(answer);
  }

  private static void describe(JsonObject answer, Throwable error) {
    if (error instanceof NotAllAcquiredException failed) {
      JsonArray givenBack = new JsonArray();
      failed.givenBack().forEach(givenBack::add);
      answer.addProperty("name", failed.name());
      answer.add("given_back", givenBack);
      describe(answer, failed.getCause());
    } else if (error instanceof ContendedException contended) {
      notFree(answer, "contended", contended.holders(), contended.holderCount(), contended.waiters());
    } else if (error instanceof TimedOutException timedOut) {
      notFree(answer, "timed_out", timedOut.holders(), timedOut.holderCount(), timedOut.waiters());
    } else if (error instanceof LockLostException lost) {
      answer.addProperty("error", "lost");
      answer.addProperty("reason", lower(lost.reason()));
      answer.addProperty("successor_token", lost.successorToken() == 0 ? null : lost.successorToken());
    } else if (error instanceof OutcomeUnknownException) {
      answer.addProperty("error", "outcome_unknown");
    } else if (error instanceof CancellationException) {
      answer.addProperty("error", "cancelled");
    } else if (error instanceof RefusedException refused) {
      answer.addProperty("error", "refused");
      answer.addProperty("code", refused.code());
      answer.addProperty("reason", refused.reason());
    } else if (error instanceof UnavailableException unavailable) {
      answer.addProperty("error", "refused");
      answer.addProperty("code", "UNAVAILABLE");
      answer.addProperty("reason", unavailable.reason());
    } else if (error instanceof ClientClosedException) {
      answer.addProperty("error", "closed");
    } else {
      error.printStackTrace();
      answer.addProperty("error", "bad_request");
    }
  }

  private static void notFree(JsonObject answer, String error, List<HolderInfo> holders, int count, int waiters) {
    answer.addProperty("error", error);
    answer.addProperty("holder", holders.isEmpty() ? null : holders.get(0).holder());
    answer.addProperty("holders", count);
    answer.addProperty("waiters", waiters);
  }
}
