package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ServerAddressTest {
  @ParameterizedTest
  @CsvSource({
    "127.0.0.1:7421, 127.0.0.1:7421",
    "locks.internal:1, locks.internal:1",
    "my_service-1:65535, my_service-1:65535",
    "[::1]:7421, [::1]:7421",
    "[fd00::2], [fd00::2]:7420",
    "localhost, localhost:7420",
    "' 10.0.0.1 ', 10.0.0.1:7420",
    "http://localhost, localhost:7420",
    "HTTP://[::1]:1/, [::1]:1",
    "https://locks.internal/, https://locks.internal:7420",
    "https://[::1]:7421, https://[::1]:7421",
    "unix:/run/a.sock, unix:/run/a.sock",
    "unix:///run/a.sock, unix:/run/a.sock",
    "' UNIX:/run/a.sock', unix:/run/a.sock",
  })
  void allFormsAreUnderstood(String text, String shown) {
    assertEquals(shown, ServerAddress.parse(text).toString());
  }

  @ParameterizedTest
  @ValueSource(strings = {
    "", "http://", "https://", "https://a:1/locks", "https://a:0", "unix:", "unix:fencepost.sock",
    "unix://run/fencepost.sock", "unix:/run/", "dns:///localhost:7420", "redis://localhost:6379", "a:1/", ":7420",
    "7420", "::1", "::1:7420", "[::1", "[::1]7420", "[localhost]:7420", "a:b:1", "localhost:", "localhost:0",
    "localhost:65536", "localhost:+1", "localhost:http", "1.2.3:7420", "256.0.0.1:7420", "not a server", "höst:7420",
  })
  void othersAreRefused(String text) {
    String message =
        assertThrows(IllegalArgumentException.class, () -> ServerAddress.parse(text)).getMessage();
    assertTrue(message.startsWith("invalid server address \"" + text + "\": "), message);
  }

  @Test
  void aPasswordIsNotShown() {
    for (String scheme : new String[] {"http", "redis"}) {
      String text = scheme + "://user:secret@localhost:7420";
      String message =
          assertThrows(IllegalArgumentException.class, () -> ServerAddress.parse(text)).getMessage();
      assertFalse(message.contains("secret"), message);
    }
  }

  @Test
  void severalAreSeparatedByCommas() {
    assertEquals("[a:7420, unix:/b]", ServerAddress.list("a, unix:/b").toString());
  }

  @Test
  void aTokenIsNotSentInPlainText() {
    ClientBuilder builder = FencepostClient.builder().bearerToken(() -> "secret");
    assertThrows(IllegalArgumentException.class, builder.servers("locks.internal")::build);
    FencepostClient.builder().bearerToken(() -> "secret").servers("localhost", "unix:/a").build().close();
  }
}
