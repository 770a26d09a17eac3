package io.fencepost.client;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Pattern;

/** The address of a server as people write it: a host and a port, with or without TLS, or the path of a Unix socket. */
record ServerAddress(String host, int port, boolean tls, String unixPath) {
  private static final Pattern HOST = Pattern.compile("[A-Za-z0-9._-]+");
  private static final Pattern NUMERIC = Pattern.compile("[0-9.]+");
  private static final Pattern IPV4 = Pattern.compile("((25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)(\\.(?!$)|$)){4}");
  private static final Pattern IPV6 = Pattern.compile("[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*");

  static List<ServerAddress> list(String texts) {
    List<ServerAddress> addresses = new ArrayList<>();
    for (String text : texts.split(",", -1)) {
      addresses.add(parse(text));
    }
    return addresses;
  }

  static ServerAddress parse(String written) {
    String text = written.strip();
    int scheme = text.indexOf("://");
    String kind = scheme < 0 ? "" : text.substring(0, scheme).toLowerCase(Locale.ROOT);
    if (kind.equals("unix") || (scheme < 0 && text.regionMatches(true, 0, "unix:", 0, 5))) {
      return unix(text, text.substring(scheme < 0 ? 5 : scheme + 3));
    }
    if (!kind.isEmpty() && !kind.equals("http") && !kind.equals("https")) {
      throw invalid(
          text, "the scheme must be http://, https:// or unix:; write host:port, or https://host:port for TLS");
    }
    String rest = scheme < 0 ? text : text.substring(scheme + 3);
    if (scheme >= 0 && rest.endsWith("/")) {
      rest = rest.substring(0, rest.length() - 1);
    }
    if (rest.isEmpty()) {
      throw invalid(text, "it is empty; write host:port, such as 127.0.0.1:" + Facts.DEFAULT_PORT);
    }
    if (rest.contains("@")) {
      throw invalid(text, "a user or a password in front of @ is not supported; write host:port");
    }
    if (rest.matches(".*[/?#].*")) {
      throw invalid(text, "nothing may follow host:port, and this has a path");
    }
    return hostAndPort(text, rest, kind.equals("https"));
  }

  private static ServerAddress hostAndPort(String text, String rest, boolean tls) {
    String host = rest;
    String port = null;
    if (rest.startsWith("[")) {
      int end = rest.indexOf(']');
      String after = end < 0 ? "" : rest.substring(end + 1);
      if (end < 0 || !IPV6.matcher(rest.substring(1, end)).matches() || (!after.isEmpty() && !after.startsWith(":"))) {
        throw invalid(text, "an IPv6 address needs brackets, such as [::1]:" + Facts.DEFAULT_PORT);
      }
      host = rest.substring(1, end);
      port = after.isEmpty() ? null : after.substring(1);
      return new ServerAddress(host, port(text, port), tls, null);
    }
    if (rest.indexOf(':') != rest.lastIndexOf(':')) {
      throw invalid(text, "an IPv6 address needs brackets, such as [::1]:" + Facts.DEFAULT_PORT);
    }
    int colon = rest.indexOf(':');
    if (colon >= 0) {
      host = rest.substring(0, colon);
      port = rest.substring(colon + 1);
    }
    if (host.isEmpty() || (port == null && host.chars().allMatch(Character::isDigit))) {
      throw invalid(text, "the host is missing; write host:port, such as localhost:" + Facts.DEFAULT_PORT);
    }
    if (!HOST.matcher(host).matches() || (NUMERIC.matcher(host).matches() && !IPV4.matcher(host).matches())) {
      throw invalid(
          text, "the host must be an IP address, or a name of letters, digits, hyphens, underscores and dots");
    }
    return new ServerAddress(host, port(text, port), tls, null);
  }

  private static int port(String text, String digits) {
    if (digits == null) {
      return Facts.DEFAULT_PORT;
    }
    if (digits.matches("[0-9]{1,5}")) {
      int port = Integer.parseInt(digits);
      if (port >= 1 && port <= 65_535) {
        return port;
      }
    }
    throw invalid(text, "the port must be a number from 1 to 65535");
  }

  private static ServerAddress unix(String text, String path) {
    if (!path.startsWith("/") || path.endsWith("/") || path.indexOf('\0') >= 0) {
      throw invalid(text, "a Unix socket needs an absolute path, such as unix:/run/fencepost.sock");
    }
    return new ServerAddress(null, 0, false, path);
  }

  /** The text without what may be a password: the part before @. */
  private static IllegalArgumentException invalid(String text, String rule) {
    int at = text.lastIndexOf('@');
    String shown = at < 0 ? text : "***" + text.substring(at);
    return new IllegalArgumentException("invalid server address \"" + shown + "\": " + rule);
  }

  boolean isUnix() {
    return unixPath != null;
  }

  /** Whether nobody else can read what is sent to this address. */
  boolean isLocal() {
    // A name such as 127.example.com may be anywhere.
    boolean loopback = host != null && host.startsWith("127.") && IPV4.matcher(host).matches();
    return isUnix() || loopback || host.equals("localhost") || host.equals("::1");
  }

  @Override
  public String toString() {
    if (isUnix()) {
      return "unix:" + unixPath;
    }
    return (tls ? "https://" : "") + authority();
  }

  /** Host and port as in a URL. */
  String authority() {
    return (host.contains(":") ? "[" + host + "]" : host) + ":" + port;
  }
}
