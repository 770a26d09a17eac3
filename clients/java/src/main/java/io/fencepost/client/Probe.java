package io.fencepost.client;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Proxy;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;

/**
 * Asks a port that closed a connection without a word whether it speaks TLS or plain text, whichever was not tried. A
 * Fencepost server does that if it is called in the other way, and so does any server that stops: only the first stays
 * so.
 */
final class Probe {
  /** How long connecting may take, and then the answer. */
  private static final int TIMEOUT_MILLIS = 500;

  /** How an HTTP/2 client begins, with an empty SETTINGS frame. */
  private static final byte[] PREFACE =
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0".getBytes(StandardCharsets.US_ASCII);

  /** The first bytes of TLS records: an alert, and a handshake. */
  private static final int TLS_ALERT = 21;

  private static final int TLS_HANDSHAKE = 22;

  private Probe() {}

  /** Whether the port answers plain text in plain text. Waits up to 1 s. */
  static boolean speaksPlainText(InetSocketAddress address) {
    int first = answer(address, PREFACE);
    return first >= 0 && first != TLS_ALERT && first != TLS_HANDSHAKE;
  }

  /** Whether the port answers TLS in TLS. Waits up to 1 s. */
  static boolean speaksTls(InetSocketAddress address) {
    try {
      SSLEngine engine = SSLContext.getDefault().createSSLEngine();
      engine.setUseClientMode(true);
      ByteBuffer hello = ByteBuffer.allocate(engine.getSession().getPacketBufferSize());
      engine.wrap(ByteBuffer.allocate(0), hello);
      int first = answer(address, Arrays.copyOf(hello.array(), hello.position()));
      return first == TLS_ALERT || first == TLS_HANDSHAKE;
    } catch (IOException | NoSuchAlgorithmException noTlsHere) {
      return false;
    }
  }

  /** The first byte that the port sends after it has received these; -1 if none comes. */
  private static int answer(InetSocketAddress address, byte[] bytes) {
    try (Socket socket = new Socket(Proxy.NO_PROXY)) {
      socket.connect(address, TIMEOUT_MILLIS);
      socket.setSoTimeout(TIMEOUT_MILLIS);
      socket.getOutputStream().write(bytes);
      return socket.getInputStream().read();
    } catch (IOException noAnswer) {
      return -1;
    }
  }
}
