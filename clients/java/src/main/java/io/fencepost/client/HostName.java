package io.fencepost.client;

import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongSupplier;

/**
 * The addresses of a host, asked for anew once a connection to it has failed: the server may have moved. The JVM keeps
 * an answer for 30 s, which is longer than most locks last without a server.
 *
 * <p>The JVM's cache can only be set for the whole process, which a library must not do. But it keeps an answer for the
 * exact spelling of a name, and names are the same in small and capital letters: each new question is spelled in
 * another way. So the question takes the way that the system is configured for, with its files, search lists and
 * services, which no DNS library for Java does. A resolver that knows the exact spelling alone (musl's of {@code
 * /etc/hosts}) is asked for that next.
 *
 * <p>One for each host in the process, as the cache is.
 */
final class HostName {
  /** What resolves names. */
  interface Lookup {
    InetAddress[] all(String name) throws UnknownHostException;
  }

  /** How long the JVM keeps an answer, and how long a newer one replaces it. */
  private static final long JVM_KEEPS = TimeUnit.SECONDS.toNanos(30);

  /** The minimum time between two questions, for names with enough letters. */
  private static final long INTERVAL_MIN = TimeUnit.SECONDS.toNanos(1);

  /** So many letters change: a JVM that keeps answers for longer still gives new ones for a quarter of an hour. */
  private static final int LETTERS_MAX = 10;

  private static final Map<String, HostName> ALL = new ConcurrentHashMap<>();

  private final String name;
  private final Lookup lookup;
  private final LongSupplier clock;
  private final int spellings;
  private final long interval;

  /** Whether a connection has ended since the last one that worked. */
  private volatile boolean suspect;

  /** The number of failures: each makes another address the first one. */
  private final AtomicInteger failures = new AtomicInteger();

  private int questions;
  private List<InetAddress> known = List.of();
  private long knownAt;

  HostName(String name, Lookup lookup, LongSupplier clock) {
    this.name = name;
    this.lookup = lookup;
    this.clock = clock;
    this.spellings = 1 << Math.min(LETTERS_MAX, (int) name.chars().filter(HostName::isLetter).count());
    this.interval = Math.max(INTERVAL_MIN, JVM_KEEPS / spellings);
  }

  static HostName of(String name) {
    return ALL.computeIfAbsent(name, host -> new HostName(host, InetAddress::getAllByName, System::nanoTime));
  }

  /** A connection to the host ended: its addresses are asked for anew. */
  void ended() {
    suspect = true;
  }

  /** The server could not be used: the next address goes first as well. */
  void failed() {
    ended();
    failures.incrementAndGet();
  }

  /** A connection to the host works. */
  void works() {
    suspect = false;
  }

  /** The addresses in the order to try them. Waits for the answer. */
  synchronized List<InetAddress> addresses() throws UnknownHostException {
    boolean anew = suspect;
    long age = clock.getAsLong() - knownAt;
    List<InetAddress> found;
    if (!known.isEmpty() && age < (anew ? interval : JVM_KEEPS)) {
      found = known;
    } else if (anew) {
      found = askAnew();
    } else {
      found = List.of(lookup.all(name));
    }
    List<InetAddress> ordered = new ArrayList<>(found);
    Collections.rotate(ordered, -Math.floorMod(failures.get(), ordered.size()));
    return ordered;
  }

  private List<InetAddress> askAnew() throws UnknownHostException {
    List<InetAddress> found = new ArrayList<>();
    for (InetAddress address : askInOtherLetters()) {
      found.add(address instanceof Inet6Address scoped
          ? Inet6Address.getByAddress(name, scoped.getAddress(), scoped.getScopeId())
          : InetAddress.getByAddress(name, address.getAddress()));
    }
    known = found;
    knownAt = clock.getAsLong();
    return found;
  }

  private InetAddress[] askInOtherLetters() throws UnknownHostException {
    try {
      return lookup.all(spelled(++questions % spellings));
    } catch (UnknownHostException unknown) {
      return lookup.all(name);
    }
  }

  /** The name with the case of its nth letter changed for each bit of {@code changes}. */
  private String spelled(int changes) {
    StringBuilder spelled = new StringBuilder(name);
    int rest = changes;
    for (int at = 0; rest != 0; at++) {
      char c = name.charAt(at);
      if (isLetter(c)) {
        spelled.setCharAt(at, (rest & 1) == 0 ? c : (char) (c ^ ' '));
        rest >>= 1;
      }
    }
    return spelled.toString();
  }

  private static boolean isLetter(int c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  }
}
