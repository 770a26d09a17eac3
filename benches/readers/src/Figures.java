package io.fencepost.readers;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.StringJoiner;
import java.util.function.ToDoubleFunction;

/** Medians of rounds, and tables of them in Markdown. */
final class Figures {
  private Figures() {}

  static double median(List<Double> values) {
    double[] sorted = values.stream().mapToDouble(Double::doubleValue).sorted().toArray();
    int middle = sorted.length / 2;
    return sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }

  static <T> double median(List<T> rounds, ToDoubleFunction<T> value) {
    return median(rounds.stream().map(value::applyAsDouble).toList());
  }

  /** The median of each round's ratio to the same round of another, and the lowest and highest. */
  static String ratio(List<Double> of, List<Double> to) {
    List<Double> ratios = new ArrayList<>();
    for (int n = 0; n < of.size(); n++) {
      ratios.add(of.get(n) / to.get(n));
    }
    double[] sorted = ratios.stream().mapToDouble(Double::doubleValue).sorted().toArray();
    return "%s (%s to %s)".formatted(shown(median(ratios)), shown(sorted[0]), shown(sorted[sorted.length - 1]));
  }

  /** Three figures, or a whole number. */
  static String shown(double value) {
    int decimals = value >= 100 ? 0 : value >= 10 ? 1 : value >= 0.1 ? 2 : 4;
    return String.format(Locale.ROOT, "%,." + decimals + "f", value);
  }

  static double percentile(long[] sorted, double part) {
    return sorted.length == 0 ? 0 : sorted[(int) Math.min(sorted.length - 1, (long) (sorted.length * part))];
  }

  /** The median over the rounds of a percentile of waits, in ms. */
  static String waits(List<long[]> rounds, double part) {
    return shown(median(rounds, waits -> percentile(waits, part) / 1e6));
  }

  static void table(String title, List<String> heads, List<List<String>> rows) {
    System.out.printf("%n%s%n%n%s%n|%s%n", title, row(heads), "---|".repeat(heads.size()));
    rows.forEach(cells -> System.out.println(row(cells)));
  }

  private static String row(List<String> cells) {
    StringJoiner row = new StringJoiner(" | ", "| ", " |");
    cells.forEach(row::add);
    return row.toString();
  }

  static List<String> join(List<String> first, String... more) {
    List<String> all = new ArrayList<>(first);
    all.addAll(Arrays.asList(more));
    return all;
  }
}
