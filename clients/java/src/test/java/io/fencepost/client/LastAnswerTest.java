package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import io.fencepost.v1.AcquireRequest;
import io.fencepost.v1.AcquireResponse;
import io.fencepost.v1.Beat;
import io.fencepost.v1.GetRequest;
import io.fencepost.v1.GetResponse;
import io.fencepost.v1.Lease;
import io.fencepost.v1.LockServiceGrpc;
import io.fencepost.v1.OperationError;
import io.fencepost.v1.SessionRequest;
import io.fencepost.v1.SessionResponse;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What is told of a call whose last try got no answer, and an earlier one did. */
@Timeout(90)
class LastAnswerTest {
  private static final String TOLD = "; the last answer was UNAVAILABLE (STORE_UNAVAILABLE): Redis is away";

  /** Refuses the first call that is not an acquire for {@link #GRANTED}, and answers no later one. */
  private static final class Once extends LockServiceGrpc.LockServiceImplBase implements AutoCloseable {
    static final String GRANTED = "granted";
    private final AtomicBoolean answered = new AtomicBoolean();
    private final Server server;

    Once() throws Exception {
      InetSocketAddress free = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
      server = NettyServerBuilder.forAddress(free).addService(this).build().start();
    }

    String address() {
      return "127.0.0.1:" + server.getPort();
    }

    private static Any reason() {
      return Any.pack(ErrorInfo.newBuilder().setDomain(Facts.ERROR_DOMAIN).setReason("STORE_UNAVAILABLE").build());
    }

    @Override
    public void get(GetRequest request, StreamObserver<GetResponse> client) {
      if (!answered.getAndSet(true)) {
        client.onError(StatusProto.toStatusException(com.google.rpc.Status.newBuilder()
            .setCode(Status.Code.UNAVAILABLE.value())
            .setMessage("Redis is away")
            .addDetails(reason())
            .build()));
      }
    }

    @Override
    public StreamObserver<SessionRequest> session(StreamObserver<SessionResponse> client) {
      client.onNext(SessionResponse.newBuilder().setBeat(Beat.getDefaultInstance()).build()); // it is open
      return new StreamObserver<>() {
        @Override
        public void onNext(SessionRequest message) {
          SessionResponse.Builder answer = SessionResponse.newBuilder().setOperation(message.getOperation());
          AcquireRequest acquire = message.getAcquire().getRequest();
          if (acquire.getLockName().equals(GRANTED)) {
            client.onNext(answer.setAcquire(grant(acquire)).build());
          } else if ((message.hasAcquire() || message.hasRelease()) && !answered.getAndSet(true)) {
            OperationError.Builder error = OperationError.newBuilder()
                .setCode(Status.Code.UNAVAILABLE.value())
                .setMessage("Redis is away")
                .addDetails(reason());
            client.onNext(answer.setError(error).build());
          }
        }

        @Override
        public void onError(Throwable ended) {
          // The client is closed.
        }

        @Override
        public void onCompleted() {
          client.onCompleted();
        }
      };
    }

    private static AcquireResponse grant(AcquireRequest request) {
      Lease lease = Lease.newBuilder()
          .setLockName(request.getLockName())
          .setLeaseId("lease")
          .setGrantId("grant")
          .setFencingToken(1)
          .setTtl(Wire.duration(Duration.ofMinutes(1).toNanos()))
          .build();
      return AcquireResponse.newBuilder()
          .setOutcome(AcquireResponse.Outcome.OUTCOME_ACQUIRED)
          .setLease(lease)
          .build();
    }

    @Override
    public void close() {
      server.shutdownNow();
    }
  }

  private static <E extends FencepostException> E told(Class<E> type, CompletableFuture<?> call) {
    Throwable thrown = assertThrows(ExecutionException.class, call::get).getCause();
    E failed = assertInstanceOf(type, thrown);
    assertTrue(failed.getMessage().endsWith(TOLD), failed.getMessage());
    UnavailableException answer = assertInstanceOf(UnavailableException.class, failed.getCause());
    assertEquals("STORE_UNAVAILABLE", answer.reason());
    assertEquals("Redis is away", answer.getMessage());
    return failed;
  }

  @Test
  void theAnswerToAnEarlierTryIsToldAndIsNotTheOutcome() throws Exception {
    try (Once reads = new Once();
        Once acquires = new Once();
        Once releases = new Once();
        FencepostClient reading = FencepostClient.connect(reads.address());
        FencepostClient acquiring = FencepostClient.connect(acquires.address());
        FencepostClient releasing = FencepostClient.connect(releases.address())) {
      FencedLock lock = releasing.acquire(Once.GRANTED).ttl(Duration.ofMinutes(1)).get();
      CompletableFuture<LeaseEnd> released = CompletableFuture.supplyAsync(lock::release);
      CompletableFuture<LockInfo> read = CompletableFuture.supplyAsync(() -> reading.get("a"));
      told(OutcomeUnknownException.class, acquiring.acquire("a").getAsync());
      assertEquals("", told(UnavailableException.class, read).reason(), "the last try got no answer");
      told(OutcomeUnknownException.class, released);
    }
  }
}
