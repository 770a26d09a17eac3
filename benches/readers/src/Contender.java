package io.fencepost.readers;

import java.util.List;

/** A lock service that is measured: its servers, and the clients of this process. */
interface Contender extends AutoCloseable {
  /** Clients of each contender, each with one connection for its commands. Threads are spread over them. */
  int CLIENTS = 8;

  /** How long a thread waits for a lock, until that counts as an error. */
  int WAIT_SECONDS = 120;

  /** The time after which the lock of a holder that died is free, where it is set with each request. */
  int TTL_SECONDS = 30;

  /** Acquires a lock, and waits for it. Closing what it returns releases the lock. */
  interface Acquire {
    AutoCloseable get() throws Exception;
  }

  String name();

  /** What one thread uses to acquire the lock together with other readers. */
  Acquire reader(String lock, int thread);

  /** What one thread uses to acquire the lock alone. */
  Acquire writer(String lock, int thread);

  /** What one thread uses to acquire one of so many permits. */
  Acquire permit(String semaphore, int permits, int thread) throws Exception;

  /** The processes that serve this contender, and nothing else. */
  List<Server> servers();

  @Override
  void close();
}
