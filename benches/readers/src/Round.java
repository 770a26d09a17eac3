package io.fencepost.readers;

import io.fencepost.readers.Contender.Acquire;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/** Threads that acquire one lock and release it at once, for a while: the same loop for all contenders. */
final class Round {
  /** One of so many requests of a thread is a writer's. */
  private static final int WRITER_EVERY = 10;

  /** What one thread does; {@code writer} is null if there are none. */
  record Work(Acquire reader, Acquire writer) {}

  /**
   * What a round measured. Waits are in ns, in order. {@code serverCpu} has the seconds of each server, {@code
   * clientCpu} those of this process, and {@code others} the part of the machine's processors that other programs took.
   */
  record Outcome(
      long operations, double rate, long errors, long violations, long[] readerWaits, long[] writerWaits,
      List<Double> serverCpu, double clientCpu, double others) {}

  /** The waits that one thread measured. */
  private static final class Waits {
    private long[] nanos = new long[1024];
    private int count;

    void add(long wait) {
      if (count == nanos.length) {
        nanos = Arrays.copyOf(nanos, 2 * count);
      }
      nanos[count++] = wait;
    }
  }

  /** How often a round is tried until other programs leave it alone. */
  private static final int TRIES = 50;

  /** How much too late the processor times may be read, in parts of the round. */
  private static final double LATE_MAX = 0.1;

  /** Measures once. */
  interface Measure<T> {
    T get(int attempt) throws Exception;
  }

  /** Measures again while other programs take more than this part of the processors; fails if that does not end. */
  static <T> T undisturbed(double most, Function<T, Outcome> outcome, Measure<T> measure) throws Exception {
    for (int attempt = 0; attempt < TRIES; attempt++) {
      T measured = measure.get(attempt);
      if (outcome.apply(measured).others() <= most) {
        return measured;
      }
    }
    throw new IllegalStateException("other programs are too busy: use an idle machine");
  }

  private final Exclusion exclusion;
  private final long start;
  private final long end;

  private Round(Exclusion exclusion, long start, long end) {
    this.exclusion = exclusion;
    this.start = start;
    this.end = end;
  }

  /** Counts from {@code warmup} on, and for {@code seconds}. */
  static Outcome run(ExecutorService executor, List<Work> work, Exclusion exclusion, List<Server> servers,
      double warmup, double seconds) throws Exception {
    long start = System.nanoTime() + (long) (warmup * 1e9);
    Round round = new Round(exclusion, start, start + (long) (seconds * 1e9));
    List<Loop> loops = new ArrayList<>();
    List<Future<?>> ends = new ArrayList<>();
    for (int thread = 0; thread < work.size(); thread++) {
      Loop loop = round.new Loop(work.get(thread), thread);
      loops.add(loop);
      ends.add(executor.submit(loop));
    }
    TimeUnit.NANOSECONDS.sleep(start - System.nanoTime());
    List<Double> serversBefore = Server.cpuSeconds(servers);
    double clientBefore = clientCpuSeconds();
    double machineBefore = Server.machineSeconds();
    long began = System.nanoTime();
    TimeUnit.NANOSECONDS.sleep(round.end - System.nanoTime());
    long ended = System.nanoTime();
    List<Double> cpu = Server.cpuSeconds(servers);
    double clientCpu = clientCpuSeconds() - clientBefore;
    double others = Server.machineSeconds() - machineBefore - clientCpu;
    for (int n = 0; n < cpu.size(); n++) {
      cpu.set(n, cpu.get(n) - serversBefore.get(n));
      others -= cpu.get(n);
    }
    others = Math.max(0, others / seconds / Runtime.getRuntime().availableProcessors());
    if (Math.max(began - start, ended - round.end) > LATE_MAX * seconds * 1e9) {
      others = 1; // this thread had no processor, so the times are of another period than the operations
    }
    // The last waits count with all of their time, so that the longest are not left out.
    for (Future<?> end : ends) {
      end.get();
    }
    long operations = loops.stream().mapToLong(loop -> loop.operations).sum();
    return new Outcome(operations, operations / seconds, loops.stream().mapToLong(loop -> loop.errors).sum(),
        exclusion.violations(), sorted(loops, false), sorted(loops, true), cpu, clientCpu,
        others);
  }

  private static double clientCpuSeconds() {
    return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
        .getProcessCpuTime() / 1e9;
  }

  private static long[] sorted(List<Loop> loops, boolean ofWriters) {
    return loops.stream()
        .map(loop -> ofWriters ? loop.writerWaits : loop.readerWaits)
        .flatMapToLong(waits -> Arrays.stream(waits.nanos, 0, waits.count))
        .sorted()
        .toArray();
  }

  /** What one thread does in the round. */
  private final class Loop implements Runnable {
    private final Work work;
    private final int thread;
    private final Waits readerWaits = new Waits();
    private final Waits writerWaits = new Waits();
    private long operations;
    private long errors;

    Loop(Work work, int thread) {
      this.work = work;
      this.thread = thread;
    }

    @Override
    public void run() {
      for (int n = thread; ; n++) {
        long began = System.nanoTime();
        if (began >= end) {
          return;
        }
        boolean isWriter = work.writer() != null && n % WRITER_EVERY == 0;
        try {
          long granted = once(isWriter);
          long now = System.nanoTime();
          if (began >= start) {
            (isWriter ? writerWaits : readerWaits).add(granted - began);
          }
          if (now >= start && now < end) {
            operations++;
          }
        } catch (Exception failed) {
          if (errors++ == 0) {
            System.err.println("thread " + thread + ": " + failed);
          }
        }
      }
    }

    private long once(boolean isWriter) throws Exception {
      AutoCloseable lock = (isWriter ? work.writer() : work.reader()).get();
      long granted = System.nanoTime();
      exclusion.enter(isWriter);
      exclusion.leave(isWriter);
      lock.close();
      return granted;
    }
  }
}
