package io.fencepost.client;

import io.fencepost.v1.LockServiceGrpc;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCredentials;
import io.grpc.ServerInterceptor;
import io.grpc.ServerInterceptors;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.concurrent.TimeUnit;

/** Passes calls on to a real server, so that interceptors see their headers and messages, and can add to them. */
final class Relay implements AutoCloseable {
  /** Clients ping idle connections; by default a server of gRPC ends a connection for that. */
  private static final long PING_INTERVAL_MIN_SECONDS = 1;

  private final ManagedChannel channel;
  private final Server server;

  Relay(String address, ServerCredentials credentials, ServerInterceptor... interceptors) throws IOException {
    channel = Grpc.newChannelBuilder(address, InsecureChannelCredentials.create()).build();
    ServerServiceDefinition.Builder service =
        ServerServiceDefinition.builder(LockServiceGrpc.getServiceDescriptor());
    LockServiceGrpc.getServiceDescriptor().getMethods().forEach(method -> addTo(service, method));
    InetSocketAddress free = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
    server = NettyServerBuilder.forAddress(free, credentials)
        .permitKeepAliveTime(PING_INTERVAL_MIN_SECONDS, TimeUnit.SECONDS)
        .permitKeepAliveWithoutCalls(true)
        .addService(ServerInterceptors.intercept(service.build(), interceptors))
        .build()
        .start();
  }

  String address() {
    return "127.0.0.1:" + server.getPort();
  }

  private <Q, A> void addTo(ServerServiceDefinition.Builder service, MethodDescriptor<Q, A> method) {
    service.addMethod(method, (call, headers) -> relay(call, channel.newCall(method, CallOptions.DEFAULT)));
  }

  private static <Q, A> ServerCall.Listener<Q> relay(ServerCall<Q, A> client, ClientCall<Q, A> server) {
    server.start(
        new ClientCall.Listener<>() {
          @Override
          public void onHeaders(Metadata headers) {
            client.sendHeaders(headers);
          }

          @Override
          public void onMessage(A message) {
            client.sendMessage(message);
          }

          @Override
          public void onClose(Status status, Metadata trailers) {
            client.close(status, trailers);
          }
        },
        new Metadata());
    server.request(Integer.MAX_VALUE);
    client.request(Integer.MAX_VALUE);
    return new ServerCall.Listener<>() {
      @Override
      public void onMessage(Q message) {
        server.sendMessage(message);
      }

      @Override
      public void onHalfClose() {
        server.halfClose();
      }

      @Override
      public void onCancel() {
        server.cancel("the client has cancelled the call", null);
      }
    };
  }

  @Override
  public void close() {
    server.shutdownNow();
    channel.shutdownNow();
  }
}
