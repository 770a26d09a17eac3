package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** When names are resolved anew, and how they are spelled. The JVM's own cache is in {@link NamesTest}. */
class HostNameTest {
  private final List<String> asked = new ArrayList<>();
  private long now;
  private int moved;
  private boolean exact;

  private final HostName host = host("db.locks");

  private HostName host(String name) {
    return new HostName(name, spelling -> {
      asked.add(spelling);
      if (exact && !spelling.equals(name)) {
        throw new UnknownHostException(spelling);
      }
      return new InetAddress[] {address(1 + moved), address(101 + moved)};
    }, () -> now);
  }

  private static InetAddress address(int last) throws UnknownHostException {
    return InetAddress.getByAddress(new byte[] {10, 0, 0, (byte) last});
  }

  private static List<String> texts(HostName host) throws UnknownHostException {
    return host.addresses().stream().map(InetAddress::getHostAddress).toList();
  }

  private void pass(long seconds) {
    now += TimeUnit.SECONDS.toNanos(seconds);
  }

  @Test
  void theJvmAnswersUntilAConnectionFails() throws Exception {
    texts(host);
    texts(host);
    assertEquals(List.of("db.locks", "db.locks"), asked);
    host.failed();
    moved = 1;
    assertEquals(List.of("10.0.0.102", "10.0.0.2"), texts(host), "another address goes first");
    assertEquals("Db.locks", asked.get(2));
    host.works();
    assertEquals(List.of("10.0.0.102", "10.0.0.2"), texts(host), "the JVM would still give the old ones");
    pass(31);
    texts(host);
    assertEquals(List.of("db.locks", "db.locks", "Db.locks", "db.locks"), asked);
  }

  @Test
  void eachQuestionIsSpelledInAnotherWay() throws Exception {
    host.ended();
    for (int n = 0; n < 30; n++) {
      texts(host);
      texts(host); // at once: it is not asked again
      pass(1);
    }
    assertEquals(30, asked.size());
    assertEquals(30, new HashSet<>(asked).size());
    assertTrue(asked.stream().allMatch("db.locks"::equalsIgnoreCase), asked.toString());
  }

  @Test
  void aNameOfFewLettersIsAskedForLessOften() throws Exception {
    HostName brief = host("a1");
    brief.ended();
    for (int n = 0; n < 30; n++) {
      texts(brief);
      pass(1);
    }
    assertEquals(List.of("A1", "a1"), asked, "30 s later, the JVM has forgotten the first answer");
  }

  @Test
  void theExactSpellingIsAskedForIfAnotherIsUnknown() throws Exception {
    exact = true;
    host.ended();
    assertEquals(List.of("10.0.0.1", "10.0.0.101"), texts(host));
    assertEquals(List.of("Db.locks", "db.locks"), asked);
  }

  @Test
  void anUnknownHostIsAskedForEachTime() {
    HostName nowhere = new HostName("nowhere", spelling -> {
      asked.add(spelling);
      throw new UnknownHostException(spelling);
    }, () -> now);
    assertThrows(UnknownHostException.class, nowhere::addresses);
    nowhere.failed();
    assertThrows(UnknownHostException.class, nowhere::addresses);
    assertEquals(List.of("nowhere", "Nowhere", "nowhere"), asked);
  }
}
