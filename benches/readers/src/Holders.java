package io.fencepost.readers;

import io.fencepost.client.FencedLock;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** What a grant costs a reader while others hold the lock: by turns with few and with many of them. */
final class Holders {
  /** Fencepost lets 10,000 hold a lock together. */
  private static final List<Integer> HOLDERS = List.of(100, 1_000, 9_900);

  private static final double WARMUP_SECONDS = 0.5;

  private final int rounds;
  private final double seconds;
  private final double others;
  private final List<FencepostContender> contenders;

  /** A round, and the calls of each command of Redis in it and in its warm-up. */
  private record Measured(Round.Outcome outcome, double evalsha, double commands) {}

  Holders(int rounds, double seconds, double others, List<FencepostContender> contenders) {
    this.rounds = rounds;
    this.seconds = seconds;
    this.others = others;
    this.contenders = contenders;
  }

  void run(int threads) throws Exception {
    Map<String, List<Measured>> measured = new LinkedHashMap<>();
    ExecutorService executor = Executors.newFixedThreadPool(threads);
    for (FencepostContender contender : contenders) {
      for (int round = 0; round <= rounds; round++) {
        for (int holders : HOLDERS) {
          String label = "holders" + round + "/" + holders;
          Measured one = Round.undisturbed(others, Measured::outcome,
              attempt -> round(executor, contender, label + "-" + attempt, holders, threads));
          String name = "%s | %,d".formatted(contender.name(), holders);
          if (round > 0) {
            measured.computeIfAbsent(name, first -> new ArrayList<>()).add(one);
          }
        }
      }
    }
    executor.shutdown();
    report(threads, measured);
  }

  private Measured round(ExecutorService executor, FencepostContender contender, String lock, int holders, int threads)
      throws Exception {
    List<FencedLock> held = contender.hold(lock, holders);
    List<Round.Work> work = new ArrayList<>();
    for (int thread = 0; thread < threads; thread++) {
      work.add(new Round.Work(contender.reader(lock, thread), null));
    }
    Map<String, Long> before = commands(contender);
    Round.Outcome outcome = Round.run(executor, work, new Exclusion(Integer.MAX_VALUE), contender.servers(),
        WARMUP_SECONDS, seconds);
    Map<String, Long> after = commands(contender);
    boolean isHeld = held.stream().allMatch(FencedLock::isValid);
    CompletableFuture.allOf(held.stream().map(FencedLock::releaseAsync).toArray(CompletableFuture<?>[]::new)).join();
    if (!isHeld) {
      throw new IllegalStateException("a lock was lost, so there were fewer holders");
    }
    System.err.printf("%s, %s: %.0f/s, %d errors, others took %.0f %%%n", lock, contender.name(), outcome.rate(),
        outcome.errors(), 100 * outcome.others());
    double pairs = outcome.operations() * (seconds + WARMUP_SECONDS) / seconds;
    return new Measured(outcome, rise(before, after, true) / pairs, rise(before, after, false) / pairs);
  }

  private static Map<String, Long> commands(Contender contender) throws Exception {
    for (Server server : contender.servers()) {
      if (server.name().equals("Redis")) {
        return server.commands();
      }
    }
    return Map.of();
  }

  private static double rise(Map<String, Long> before, Map<String, Long> after, boolean onlyScripts) {
    return after.entrySet().stream()
        .filter(command -> !onlyScripts || command.getKey().equals("evalsha") || command.getKey().equals("eval"))
        .mapToDouble(command -> command.getValue() - before.getOrDefault(command.getKey(), 0L))
        .sum();
  }

  private static void report(int threads, Map<String, List<Measured>> measured) {
    List<String> heads = List.of("server", "holders", "pairs a second", "wait, ms: p50", "p99",
        "CPU s of servers, per 100,000", "EVAL and EVALSHA each", "commands each", "errors");
    List<List<String>> rows = new ArrayList<>();
    measured.forEach((name, each) -> {
      List<Round.Outcome> outcomes = each.stream().map(Measured::outcome).toList();
      List<long[]> waits = outcomes.stream().map(Round.Outcome::readerWaits).toList();
      List<String> cpu = new ArrayList<>();
      for (int n = 0; n < outcomes.get(0).serverCpu().size(); n++) {
        int server = n;
        cpu.add(Figures.shown(Figures.median(outcomes, it -> it.serverCpu().get(server) * 1e5 / it.operations())));
      }
      rows.add(List.of(name, Figures.shown(Figures.median(outcomes, Round.Outcome::rate)), Figures.waits(waits, 0.5),
          Figures.waits(waits, 0.99), String.join(" + ", cpu), Figures.shown(Figures.median(each, Measured::evalsha)),
          Figures.shown(Figures.median(each, Measured::commands)),
          "" + outcomes.stream().mapToLong(Round.Outcome::errors).sum()));
    });
    Figures.table("%d threads as readers, while others hold the lock".formatted(threads), heads, rows);
  }
}
