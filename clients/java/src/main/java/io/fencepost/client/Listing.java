package io.fencepost.client;

import io.fencepost.v1.ListRequest;
import io.fencepost.v1.ListResponse;
import io.fencepost.v1.ListWaitersRequest;
import io.fencepost.v1.ListWaitersResponse;
import io.fencepost.v1.LockServiceGrpc;
import java.util.function.Function;
import java.util.stream.Stream;

/** The pages of a listing as one stream. */
final class Listing {
  private Listing() {}

  static Stream<LockInfo> locks(Calls calls, String prefix) {
    ListRequest first = ListRequest.newBuilder().setPrefix(prefix).setPageSize(Facts.PAGE_SIZE_MAX).build();
    Function<String, ListResponse> fetch =
        token -> calls.call(LockServiceGrpc.getListMethod(), first.toBuilder().setPageToken(token).build());
    return pages(fetch, ListResponse::getNextPageToken)
        .flatMap(page -> page.getLocksList().stream().map(Wire::lock));
  }

  static Stream<WaiterInfo> waiters(Calls calls, String name) {
    ListWaitersRequest first = ListWaitersRequest.newBuilder().setLockName(name).build();
    Function<String, ListWaitersResponse> fetch =
        token -> calls.call(LockServiceGrpc.getListWaitersMethod(), first.toBuilder().setPageToken(token).build());
    return pages(fetch, ListWaitersResponse::getNextPageToken)
        .flatMap(page -> page.getWaitersList().stream().map(Wire::waiter));
  }

  /** {@code fetch} gets the token of a page, and {@code next} returns that of the next one, empty after the last. */
  private static <A> Stream<A> pages(Function<String, A> fetch, Function<A, String> next) {
    return Stream.iterate(new Page<>(fetch, next, ""), page -> page != null, Page::next).map(Page::answer);
  }

  /** One page, fetched when it is read. */
  private static final class Page<A> {
    private final Function<String, A> fetch;
    private final Function<A, String> next;
    private final String token;
    private A answer;

    Page(Function<String, A> fetch, Function<A, String> next, String token) {
      this.fetch = fetch;
      this.next = next;
      this.token = token;
    }

    A answer() {
      if (answer == null) {
        answer = fetch.apply(token);
      }
      return answer;
    }

    Page<A> next() {
      String following = next.apply(answer());
      return following.isEmpty() ? null : new Page<>(fetch, next, following);
    }
  }
}
