package io.fencepost.client;

import io.grpc.netty.shaded.io.netty.buffer.ByteBuf;
import io.grpc.netty.shaded.io.netty.buffer.ByteBufUtil;
import io.grpc.netty.shaded.io.netty.channel.ChannelHandler;
import io.grpc.netty.shaded.io.netty.channel.ChannelHandlerContext;
import io.grpc.netty.shaded.io.netty.channel.ChannelInboundHandlerAdapter;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * What the connections of a channel have shown first: whether the server speaks gRPC at all. gRPC's errors hardly tell,
 * so the first bytes of each connection are looked at here, below TLS.
 */
final class Greeting {
  /** What was seen. Of a server with TLS, records are {@link #SPOKE}: its errors say what is wrong. */
  enum Seen {
    /** No connection could be made. */
    NO_CONNECTION,
    /** A connection was made, and nothing has arrived. */
    NOTHING,
    /** A connection was closed before anything arrived. */
    CLOSED,
    /** The server speaks the expected protocol. */
    SPOKE,
    /** The server speaks another protocol than HTTP/2. */
    OTHER,
    /** The server closed a connection before anything arrived, because it speaks TLS where plain text was expected. */
    TLS_ONLY,
    /** The same the other way round. */
    PLAIN_ONLY
  }

  /** The most bytes that are shown of a foreign protocol. */
  private static final int SHOWN_MAX = 60;

  /** The length of an HTTP/2 frame header: 3 bytes of length, then type, flags and stream. */
  private static final int HEAD = 9;

  /** Type, flags and stream of the expected first frame: SETTINGS, without the ACK flag, on stream 0. */
  private static final byte[] SETTINGS = {4, 0, 0, 0, 0, 0};

  private final boolean plain;
  private Seen seen = Seen.NO_CONNECTION;
  private byte[] bytes = {};

  /** The server that closed a connection before anything arrived; null once it was looked at. */
  private InetSocketAddress closedBy;

  Greeting(boolean plain) {
    this.plain = plain;
  }

  synchronized Seen seen() {
    return seen;
  }

  /** Whether the server answered plain text with a TLS alert. */
  synchronized boolean isTlsAlert() {
    return bytes.length > 1 && bytes[0] == 0x15 && bytes[1] == 3;
  }

  /** The first line, quoted; null if it is not text. */
  synchronized String line() {
    int end = 0;
    while (end < Math.min(bytes.length, SHOWN_MAX) && bytes[end] != '\r' && bytes[end] != '\n') {
      if (bytes[end] < ' ' || bytes[end] > '~') {
        return null;
      }
      end++;
    }
    String line = new String(bytes, 0, end, StandardCharsets.US_ASCII);
    return end == 0 ? null : '"' + line.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
  }

  /** Looks at one connection. The first handler of its pipeline. */
  ChannelHandler watch() {
    return new Watcher();
  }

  private synchronized void connected() {
    if (seen == Seen.NO_CONNECTION) {
      seen = Seen.NOTHING;
    }
  }

  private synchronized void closed(SocketAddress remote) {
    if (seen == Seen.NOTHING) {
      seen = Seen.CLOSED;
      closedBy = remote instanceof InetSocketAddress address ? address : null;
    }
  }

  /** Finds out more about a connection that said nothing. May wait up to 1 s, at most once. */
  void examine() {
    InetSocketAddress address;
    synchronized (this) {
      address = closedBy;
      closedBy = null;
    }
    if (address == null) {
      return;
    }
    boolean wrong = plain ? Probe.speaksTls(address) : Probe.speaksPlainText(address);
    synchronized (this) {
      if (wrong && seen == Seen.CLOSED) {
        seen = plain ? Seen.TLS_ONLY : Seen.PLAIN_ONLY;
      }
    }
  }

  /** Takes the first bytes of a connection. Returns whether they suffice. */
  private synchronized boolean received(byte[] first) {
    if (plain && !beginsAsHttp2(first)) {
      seen = Seen.OTHER;
      bytes = first;
      return first.length >= SHOWN_MAX;
    }
    seen = Seen.SPOKE;
    bytes = new byte[] {};
    return !plain || first.length >= HEAD;
  }

  /** A server's first frame is never 64 KiB or more, but text looks like that. */
  private static boolean beginsAsHttp2(byte[] first) {
    int known = Math.max(3, Math.min(first.length, HEAD));
    return first[0] == 0
        && Arrays.equals(Arrays.copyOfRange(first, 3, known), Arrays.copyOf(SETTINGS, known - 3));
  }

  private final class Watcher extends ChannelInboundHandlerAdapter {
    private byte[] first = {};
    private SocketAddress remote;

    @Override
    public void channelActive(ChannelHandlerContext context) {
      remote = context.channel().remoteAddress();
      connected();
      context.fireChannelActive();
    }

    @Override
    public void channelRead(ChannelHandlerContext context, Object message) {
      if (message instanceof ByteBuf buffer && buffer.isReadable()) {
        int more = Math.min(buffer.readableBytes(), SHOWN_MAX);
        byte[] part = ByteBufUtil.getBytes(buffer, buffer.readerIndex(), more);
        int before = first.length;
        first = Arrays.copyOf(first, before + more);
        System.arraycopy(part, 0, first, before, more);
        if (received(first)) {
          context.pipeline().remove(this);
        }
      }
      context.fireChannelRead(message);
    }

    @Override
    public void channelInactive(ChannelHandlerContext context) {
      closed(remote);
      context.fireChannelInactive();
    }

    /** The connection was reset, perhaps. gRPC ends its calls with this, before the connection is closed. */
    @Override
    public void exceptionCaught(ChannelHandlerContext context, Throwable error) {
      closed(remote);
      context.fireExceptionCaught(error);
    }
  }
}
