package io.fencepost.readers;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Shared locks and semaphores of Fencepost, Redisson and Curator: {@code [readers] [semaphore] [holders] [--rounds N]
 * [--seconds N] [--threads N] [--others PERCENT]}. All contenders run by turns, one round of each after the other,
 * because the minutes on a machine differ. The first round of each warms up. A round in which other programs take more
 * than PERCENT of the processors is repeated.
 */
final class Readers {
  private static final int PERMITS = 100;

  /** How long each round runs before it counts, so that the queue is full. */
  private static final double WARMUP_SECONDS = 2;

  private static final Map<String, Integer> THREADS = Map.of("readers", 64, "semaphore", 1000, "holders", 1);

  private final int rounds;
  private final double seconds;
  private final double others;
  private final List<Contender> contenders;
  private long violations;

  /** {@code others}: the part of the processors that other programs may take in a round that counts. */
  private Readers(int rounds, double seconds, double others, List<Contender> contenders) {
    this.rounds = rounds;
    this.seconds = seconds;
    this.others = others;
    this.contenders = contenders;
  }

  public static void main(String[] arguments) {
    int status = 1;
    try {
      status = measure(arguments);
    } catch (Exception failed) {
      failed.printStackTrace();
    }
    System.exit(status); // threads of clients would go on
  }

  private static int measure(String[] arguments) throws Exception {
    List<String> names = new ArrayList<>();
    Map<String, Integer> options = new LinkedHashMap<>(Map.of("--rounds", 7, "--seconds", 5, "--threads", 0, "--others", 40));
    for (int n = 0; n < arguments.length; n++) {
      if (options.containsKey(arguments[n]) && n + 1 < arguments.length) {
        options.put(arguments[n], Integer.parseInt(arguments[++n]));
      } else if (THREADS.containsKey(arguments[n])) {
        names.add(arguments[n]);
      } else {
        System.err.println("[readers] [semaphore] [holders] [--rounds N] [--seconds N] [--threads N]"
            + " [--others PERCENT], not " + arguments[n]);
        return 2;
      }
    }
    List<FencepostContender> own = List.of(FencepostContender.onRedis(), FencepostContender.inMemory());
    List<Contender> contenders = new ArrayList<>(own);
    if (!names.equals(List.of("holders"))) {
      contenders.addAll(List.of(new RedissonContender(), new CuratorContender(true), new CuratorContender(false)));
    }
    double others = options.get("--others") / 100.0;
    Readers readers = new Readers(options.get("--rounds"), options.get("--seconds"), others, contenders);
    System.out.printf("Java %s, %d processors, %d clients of each contender with one connection each%n",
        System.getProperty("java.version"), Runtime.getRuntime().availableProcessors(), Contender.CLIENTS);
    for (String name : names.isEmpty() ? List.of("readers", "semaphore", "holders") : names) {
      int threads = options.get("--threads") > 0 ? options.get("--threads") : THREADS.get(name);
      if (name.equals("holders")) {
        new Holders(readers.rounds, readers.seconds, others, own).run(threads);
      } else {
        readers.compare(name, threads);
      }
    }
    for (Contender contender : contenders) {
      contender.close();
    }
    return readers.violations == 0 ? 0 : 1;
  }

  private void compare(String workload, int threads) throws Exception {
    Map<Contender, List<Round.Outcome>> outcomes = new LinkedHashMap<>();
    ExecutorService executor = Executors.newFixedThreadPool(threads);
    for (int round = 0; round <= rounds; round++) {
      for (Contender contender : contenders) {
        String label = workload + round;
        Round.Outcome outcome = Round.undisturbed(others, it -> it,
            attempt -> round(executor, contender, workload, label + "-" + attempt, threads));
        if (round > 0) {
          outcomes.computeIfAbsent(contender, first -> new ArrayList<>()).add(outcome);
        }
      }
    }
    executor.shutdown();
    report(workload, threads, outcomes);
  }

  private Round.Outcome round(ExecutorService executor, Contender contender, String workload, String lock, int threads)
      throws Exception {
    boolean isLock = workload.equals("readers");
    List<Round.Work> work = new ArrayList<>();
    for (int thread = 0; thread < threads; thread++) {
      work.add(isLock
          ? new Round.Work(contender.reader(lock, thread), contender.writer(lock, thread))
          : new Round.Work(contender.permit(lock, PERMITS, thread), null));
    }
    Exclusion exclusion = new Exclusion(isLock ? Integer.MAX_VALUE : PERMITS);
    Round.Outcome outcome = Round.run(executor, work, exclusion, contender.servers(), WARMUP_SECONDS, seconds);
    violations += outcome.violations();
    System.err.printf("%s, %s: %.0f/s, %d errors, %d violations, others took %.0f %%%n", lock, contender.name(),
        outcome.rate(), outcome.errors(), outcome.violations(), 100 * outcome.others());
    return outcome;
  }

  private static List<Double> rates(List<Round.Outcome> outcomes) {
    return outcomes.stream().map(Round.Outcome::rate).toList();
  }

  private void report(String workload, int threads, Map<Contender, List<Round.Outcome>> outcomes) {
    boolean isLock = workload.equals("readers");
    List<String> heads = new ArrayList<>(List.of("contender", "a second", "Fencepost on Redis has",
        isLock ? "reader's wait, ms: p50" : "wait, ms: p50", "p99"));
    heads.addAll(isLock ? List.of("writer's wait, ms: p50", "p99", "longest") : List.of("longest"));
    heads.addAll(List.of("CPU s of servers, per 100,000", "of clients", "operations", "errors", "violations",
        "others took of the machine, %"));
    List<Double> ours = rates(outcomes.get(contenders.get(0)));
    List<List<String>> rows = new ArrayList<>();
    outcomes.forEach((contender, rounds) -> {
      List<long[]> reads = rounds.stream().map(Round.Outcome::readerWaits).toList();
      List<long[]> last = isLock ? rounds.stream().map(Round.Outcome::writerWaits).toList() : reads;
      List<String> cells = new ArrayList<>(List.of(contender.name(), Figures.shown(Figures.median(rates(rounds))),
          Figures.ratio(ours, rates(rounds)), Figures.waits(reads, 0.5), Figures.waits(reads, 0.99)));
      if (isLock) {
        cells.addAll(List.of(Figures.waits(last, 0.5), Figures.waits(last, 0.99)));
      }
      double longest = last.stream().mapToDouble(waits -> Figures.percentile(waits, 1) / 1e6).max().orElse(0);
      rows.add(Figures.join(cells, Figures.shown(longest), serverCpu(contender, rounds),
          Figures.shown(Figures.median(rounds, it -> it.clientCpu() * 1e5 / it.operations())),
          String.format("%,d", rounds.stream().mapToLong(Round.Outcome::operations).sum()),
          "" + rounds.stream().mapToLong(Round.Outcome::errors).sum(),
          "" + rounds.stream().mapToLong(Round.Outcome::violations).sum(),
          Figures.shown(100 * Figures.median(rounds, Round.Outcome::others))));
    });
    String what = isLock ? "nine of ten as readers, one lock" : "a semaphore of " + PERMITS;
    Figures.table("%d threads, %s".formatted(threads, what), heads, rows);
  }

  private static String serverCpu(Contender contender, List<Round.Outcome> rounds) {
    List<String> each = new ArrayList<>();
    for (int n = 0; n < contender.servers().size(); n++) {
      int server = n;
      double seconds = Figures.median(rounds, it -> it.serverCpu().get(server) * 1e5 / it.operations());
      each.add(contender.servers().get(n).name() + " " + Figures.shown(seconds));
    }
    return String.join(", ", each);
  }

}
