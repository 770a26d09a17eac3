package io.fencepost.client;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;

/**
 * The operations that wait to be sent, at once or after a pause. What ends or saves leases goes before acquires. Every
 * method is called under the lock of the {@link Keeper}.
 */
final class OperationQueue {
  private final ArrayDeque<Operation> urgent = new ArrayDeque<>();
  private final ArrayDeque<Operation> acquires = new ArrayDeque<>();
  private final PriorityQueue<Operation> paused =
      new PriorityQueue<>(Comparator.comparingLong((Operation operation) -> operation.notBefore));

  void add(Operation operation) {
    (operation.isUrgent() ? urgent : acquires).add(operation);
  }

  /** Adds an operation that may be sent from {@link Operation#notBefore} on. */
  void pause(Operation operation) {
    paused.add(operation);
  }

  void remove(Operation operation) {
    acquires.remove(operation);
    urgent.remove(operation);
    paused.remove(operation);
  }

  /** Removes and returns the next operation that goes before acquires; null if there is none. */
  Operation pollUrgent() {
    return urgent.poll();
  }

  Operation pollAcquire() {
    return acquires.poll();
  }

  /** Ends the pauses that are over. */
  void resume(long now) {
    for (Operation due = paused.peek(); due != null && due.notBefore <= now; due = paused.peek()) {
      add(paused.poll());
    }
  }

  /** The time until the next pause is over; the longest time there is if there is no pause. */
  long nextResume(long now) {
    return paused.isEmpty() ? Long.MAX_VALUE : paused.peek().notBefore - now;
  }

  /** Whether something could be sent now. */
  boolean isReady() {
    return !urgent.isEmpty() || !acquires.isEmpty();
  }

  boolean isEmpty() {
    return !isReady() && paused.isEmpty();
  }

  /** What could be sent now. */
  List<Operation> ready() {
    List<Operation> all = new ArrayList<>(urgent);
    all.addAll(acquires);
    return all;
  }
}
