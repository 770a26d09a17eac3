package io.fencepost.client;

import io.fencepost.v1.CheckTokenRequest;
import io.fencepost.v1.CheckTokenResponse;
import io.fencepost.v1.GetRequest;
import io.fencepost.v1.LockServiceGrpc;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.stream.Stream;

/**
 * A client of a Fencepost server and its replicas. One client serves a whole process: all of its locks are acquired,
 * kept and released on one stream.
 *
 * <pre>{@code
 * try (FencepostClient client = FencepostClient.connect("127.0.0.1:7420");
 *     FencedLock lock = client.acquire("orders/42").waitFor(Duration.ofSeconds(30)).get()) {
 *   store.write(order, lock.token());
 * }
 * }</pre>
 *
 * <p>All methods may be called by any thread. All threads of a client are daemon threads: none keeps the JVM running.
 */
public final class FencepostClient implements AutoCloseable {
  /** The version of this client. */
  public static final String VERSION = "0.1.0";

  /** How long closing waits for the answers to releases, in nanoseconds. */
  private static final long CLOSE_TIMEOUT = TimeUnit.SECONDS.toNanos(3);

  private final Threads threads;
  private final Keeper keeper;
  private final Calls calls;
  private final Connector connector;
  private final Servers servers;
  private final String holder;
  private final AtomicBoolean closed = new AtomicBoolean();

  FencepostClient(
      BootClock clock, Threads threads, Connector connector, List<ServerAddress> addresses, String holder) {
    Log log = new Log(threads);
    this.threads = threads;
    this.connector = connector;
    this.servers = new Servers(addresses, log);
    this.holder = holder;
    this.calls = new Calls(clock, connector, servers);
    this.keeper = new Keeper(clock, threads, log, connector, calls, servers);
    threads.checkWith(keeper::check);
  }

  /**
   * Creates a client of the servers that {@code FENCEPOST_SERVER} names, else of {@code 127.0.0.1:7420}.
   *
   * @return the client; close it
   * @throws IllegalArgumentException if an address is not valid
   */
  public static FencepostClient create() {
    return builder().build();
  }

  /**
   * Creates a client of these servers. It connects with the first call.
   *
   * @param servers as in {@link ClientBuilder#servers}
   * @return the client; close it
   * @throws IllegalArgumentException if an address is not valid
   */
  public static FencepostClient connect(String... servers) {
    return builder().servers(servers).build();
  }

  /**
   * Creates a builder for other settings.
   *
   * @return a builder with the default settings
   */
  public static ClientBuilder builder() {
    return new ClientBuilder();
  }

  /**
   * Prepares to acquire a lock: set options, then call {@link LockRequest#get()}.
   *
   * @param name the lock's name: 1 to 512 bytes of UTF-8 without control characters
   * @return a request with the default options: the server's default TTL, no wait
   */
  public LockRequest acquire(String name) {
    return new LockRequest(keeper, name, holder);
  }

  /**
   * Acquires a lock if it is free, with the default options.
   *
   * @param name the lock's name
   * @return the lock, or empty if it is not free
   * @throws FencepostException as {@link LockRequest#get()}
   */
  public Optional<FencedLock> tryAcquire(String name) {
    return acquire(name).tryGet();
  }

  /**
   * Prepares to acquire several locks together: all of them, or none. Set options, then call {@link
   * LockSetRequest#get()}.
   *
   * <p>The locks are acquired one after another, in the order of the bytes of their names, in which all clients acquire
   * them: so no two calls wait for each other in a circle. It is not one step: others see that some are held, and those
   * are held while later ones are waited for. {@link #tryAll} does not do that.
   *
   * @param names 1 to 64 names of locks; one that is given twice counts once
   * @return a request with the default options: the server's default TTL, no wait
   */
  public LockSetRequest acquireAll(Collection<String> names) {
    return new LockSetRequest(keeper, LockSetRequest.exclusive(names), holder, false);
  }

  /**
   * Prepares to acquire several locks together like {@link #acquireAll(Collection)}, each exclusive or shared. In a
   * hierarchy, share all parents of what is to be locked: {@code acquireAll(LockItem.shared("db"),
   * LockItem.exclusive("db/users"))}.
   *
   * @param items 1 to 64 locks; one that is given twice counts once
   * @return a request with the default options
   * @throws IllegalArgumentException if a name is given with two modes
   */
  public LockSetRequest acquireAll(LockItem... items) {
    return new LockSetRequest(keeper, List.of(items), holder, false);
  }

  /**
   * Prepares to acquire several locks when all of them are free at the same moment. It never waits for one lock while
   * it holds another: it tries to acquire all, and if one is not free it gives back what it has and tries again after a
   * random pause of up to a second, as long as {@link LockSetRequest#waitFor} says. So it holds up nobody, and it may
   * come too late again and again if the locks are rarely free.
   *
   * @param names 1 to 64 names of locks; one that is given twice counts once
   * @return a request with the default options: the server's default TTL, one try
   */
  public LockSetRequest tryAll(Collection<String> names) {
    return new LockSetRequest(keeper, LockSetRequest.exclusive(names), holder, true);
  }

  /**
   * Prepares to acquire several locks like {@link #tryAll(Collection)}, each exclusive or shared.
   *
   * @param items 1 to 64 locks; one that is given twice counts once
   * @return a request with the default options
   * @throws IllegalArgumentException if a name is given with two modes
   */
  public LockSetRequest tryAll(LockItem... items) {
    return new LockSetRequest(keeper, List.of(items), holder, true);
  }

  /**
   * Runs a body under a lock if the lock is free, with the default options. For others: {@link LockRequest#run}.
   *
   * @param name the lock's name
   * @param body the work
   * @param <X> the exception that it throws
   * @throws X if the body fails
   * @throws ContendedException if the lock is not free
   * @throws LockLostException if the lock was lost before the body returned
   */
  public <X extends Exception> void runLocked(String name, LockBody<X> body) throws X {
    acquire(name).run(body);
  }

  /**
   * Runs a function under a lock if the lock is free, with the default options. For others: {@link LockRequest#call}.
   *
   * @param name the lock's name
   * @param function the work
   * @param <T> the type of its value
   * @param <X> the exception that it throws
   * @return its value
   * @throws X if the function fails
   * @throws ContendedException if the lock is not free
   * @throws LockLostException if the lock was lost before the function returned
   */
  public <T, X extends Exception> T callLocked(String name, LockFunction<T, X> function) throws X {
    return acquire(name).call(function);
  }

  /**
   * Prepares to lead: to hold a lock for as long as the work of a leader lasts, and to wait for it as long as it takes.
   * Set options, then call {@link LeadRequest#run} or {@link LeadRequest#call}.
   *
   * @param name the name of the lock for which all candidates campaign
   * @return a request with the default options
   */
  public LeadRequest lead(String name) {
    return new LeadRequest(keeper, acquire(name));
  }

  /**
   * Leads with a body, term after term, until it ends while it leads, with the default options. For others: {@link
   * LeadRequest#run}.
   *
   * @param name the name of the lock for which all candidates campaign
   * @param body the work of the leader, which ends when its thread is interrupted
   * @param <X> the exception that it throws
   * @throws X if the body fails while it leads
   * @throws FencepostException as {@link LeadRequest#run}
   */
  public <X extends Exception> void lead(String name, LockBody<X> body) throws X {
    lead(name).run(body);
  }

  /**
   * Reads a lock: a snapshot for people and dashboards.
   *
   * @param name the lock's name
   * @return its state; without holders if it is free
   * @throws UnavailableException if no server could be reached in 10 s
   * @throws RefusedException if the server refused the call
   * @throws WaitInterruptedException if the thread is interrupted
   */
  public LockInfo get(String name) {
    GetRequest request = GetRequest.newBuilder().setLockName(notNull(name, "lock name")).build();
    return Wire.lock(calls.call(LockServiceGrpc.getGetMethod(), request).getLock());
  }

  /**
   * Lists the locks that are held or waited for, in no particular order. Pages are fetched as the stream is read.
   *
   * @param prefix only locks whose names begin with this; empty for all
   * @return the locks; reading it throws the exceptions of {@link #get}
   */
  public Stream<LockInfo> list(String prefix) {
    return Listing.locks(calls, notNull(prefix, "prefix"));
  }

  /**
   * Watches locks: the listener receives events from the moment on that {@link Watch#started()} completes. If the
   * connection is lost, the watch goes on with the next server and reports {@link LockEvent.Kind#MISSED}.
   *
   * @param prefix only locks whose names begin with this; empty for all
   * @param listener is called with one event at a time, on a thread of the client's pool; while it is busy the server
   *     waits, and after too many events it drops some and reports them as missed
   * @return the watch; close it
   */
  public Watch watch(String prefix, Consumer<LockEvent> listener) {
    return new Watch(threads, calls, notNull(prefix, "prefix"), notNull(listener, "listener"));
  }

  /**
   * Observes a lock: the listener receives the state that it has now, and then each that it has after a grant, a
   * conversion, a description or the end of a lease. That nobody holds the lock is a state too. For the followers of an
   * election: who leads, and what the leader says of itself. If the connection is lost, the observation goes on with
   * the next server, and begins again with the state at that time.
   *
   * @param name the lock's name
   * @param listener is called with one state at a time, on a thread of the client's pool; while it is busy, states in
   *     between may be missed, never the newest
   * @return the observation; close it
   */
  public Observation observe(String name, Consumer<LockInfo> listener) {
    return new Observation(threads, calls, notNull(name, "lock name"), notNull(listener, "listener"));
  }

  /**
   * Lists those who wait for a lock, the next one first. Pages are fetched as the stream is read; requests may join and
   * leave between two pages.
   *
   * @param name the lock's name
   * @return the waiting requests; reading it throws the exceptions of {@link #get}
   */
  public Stream<WaiterInfo> waiters(String name) {
    return Listing.waiters(calls, notNull(name, "lock name"));
  }

  /**
   * Checks whether a token is that of a current lease: for stores that cannot keep the highest token themselves. The
   * answer may be out of date when it arrives; only a comparison inside the store has no such gap.
   *
   * @param name the lock's name
   * @param token the token, above 0
   * @return its status
   * @throws UnavailableException if no server could be reached in 10 s
   * @throws RefusedException if the server refused the call
   * @throws WaitInterruptedException if the thread is interrupted
   */
  public TokenStatus checkToken(String name, long token) {
    CheckTokenRequest request = CheckTokenRequest.newBuilder()
        .setLockName(notNull(name, "lock name"))
        .setFencingToken(notNegative(token, "token"))
        .build();
    CheckTokenResponse answer = calls.call(LockServiceGrpc.getCheckTokenMethod(), request);
    TokenStatus.State state =
        switch (answer.getStatus()) {
          case STATUS_CURRENT -> TokenStatus.State.CURRENT;
          case STATUS_ENDED -> TokenStatus.State.ENDED;
          case STATUS_STALE -> TokenStatus.State.STALE;
          case STATUS_UNKNOWN, STATUS_UNSPECIFIED, UNRECOGNIZED -> TokenStatus.State.UNKNOWN;
        };
    return new TokenStatus(state, answer.getNewestToken());
  }

  static <T> T notNull(T value, String what) {
    return Objects.requireNonNull(value, () -> what + " must not be null");
  }

  /** Refuses a token that the message cannot express: it would be sent as another one. */
  static long notNegative(long token, String what) {
    if (token < 0) {
      throw new IllegalArgumentException(what + " must be 0 or more, not " + token);
    }
    return token;
  }

  /**
   * Ends waiting requests with {@link ClientClosedException}, releases the locks that are held, and waits up to 3 s for
   * the answers. Stop the work under the locks first. Idempotent.
   */
  @Override
  public void close() {
    if (closed.compareAndSet(false, true)) {
      keeper.close(CLOSE_TIMEOUT);
      calls.close();
      connector.close();
      threads.close();
    }
  }

  /** Shows the servers. */
  @Override
  public String toString() {
    return "FencepostClient" + servers;
  }
}
