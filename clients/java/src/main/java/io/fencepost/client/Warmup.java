package io.fencepost.client;

import com.google.protobuf.Duration;
import com.google.protobuf.InvalidProtocolBufferException;
import io.fencepost.v1.AcquireRequest;
import io.fencepost.v1.AcquireResponse;
import io.fencepost.v1.SessionAcquire;
import io.fencepost.v1.SessionRequest;
import io.fencepost.v1.SessionResponse;

/**
 * Loads the classes of the first messages. A cold JVM takes up to seconds for that, and the validity of a lease counts
 * from the sending of its request, so it is done before anything is sent.
 */
final class Warmup {
  private static volatile boolean done;

  private Warmup() {}

  static void run() {
    if (done) {
      return;
    }
    Duration second = Duration.newBuilder().setSeconds(1).build();
    SessionRequest request = SessionRequest.newBuilder()
        .setOperation(1)
        .setAcquire(SessionAcquire.newBuilder()
            .setHandle(1)
            .setRequest(AcquireRequest.newBuilder().setLockName("warm-up").setTtl(second).putMetadata("key", "value")))
        .build();
    SessionResponse response = SessionResponse.newBuilder()
        .setOperation(1)
        .setAcquire(AcquireResponse.newBuilder()
            .setHeldFor(second)
            .setLease(io.fencepost.v1.Lease.newBuilder().setLockName("warm-up").setTtl(second)))
        .build();
    try {
      boolean same = SessionRequest.parseFrom(request.toByteArray()).equals(request)
          && SessionResponse.parseFrom(response.toByteArray()).equals(response);
      if (!same) {
        throw new IllegalStateException("generated messages do not survive encoding");
      }
    } catch (InvalidProtocolBufferException impossible) {
      throw new IllegalStateException("generated messages cannot be read back", impossible);
    }
    BootClock.system().now();
    done = true;
  }
}
