package io.fencepost.client;

import io.fencepost.v1.ListRequest;
import io.fencepost.v1.ListResponse;
import io.fencepost.v1.LockServiceGrpc;
import java.util.stream.Stream;

/** The pages of a listing as one stream. */
final class Listing {
  private Listing() {}

  static Stream<LockInfo> stream(Calls calls, String prefix) {
    return Stream.iterate(new Page(calls, prefix, null), page -> page != null, Page::next)
        .flatMap(page -> page.answer().getLocksList().stream().map(Wire::lock));
  }

  /** One page, fetched when it is read. */
  private static final class Page {
    private final Calls calls;
    private final String prefix;
    private final String token;
    private ListResponse answer;

    Page(Calls calls, String prefix, String token) {
      this.calls = calls;
      this.prefix = prefix;
      this.token = token;
    }

    ListResponse answer() {
      if (answer == null) {
        ListRequest.Builder request = ListRequest.newBuilder().setPrefix(prefix).setPageSize(Facts.PAGE_SIZE_MAX);
        if (token != null) {
          request.setPageToken(token);
        }
        answer = calls.call(LockServiceGrpc.getListMethod(), request.build());
      }
      return answer;
    }

    Page next() {
      String next = answer().getNextPageToken();
      return next.isEmpty() ? null : new Page(calls, prefix, next);
    }
  }
}
