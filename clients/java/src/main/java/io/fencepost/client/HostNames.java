package io.fencepost.client;

import io.grpc.EquivalentAddressGroup;
import io.grpc.NameResolver;
import io.grpc.StatusOr;
import io.grpc.SynchronizationContext;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;

/**
 * Resolves the host of an address for gRPC, whose own resolver keeps answers for 30 s and obeys settings for web
 * proxies.
 *
 * <p>A failure is passed on as an address that cannot be connected to, because gRPC would log a warning with a stack
 * trace at every attempt. It reaches the caller as that of the connection.
 */
final class HostNames extends NameResolver.Factory {
  private final ServerAddress address;
  private final Executor pool;

  HostNames(ServerAddress address, Executor pool) {
    this.address = address;
    this.pool = pool;
  }

  /** No host has this name, so gRPC takes none of an address for a scheme. */
  @Override
  public String getDefaultScheme() {
    return "fencepost+host";
  }

  @Override
  public NameResolver newNameResolver(URI target, NameResolver.Args args) {
    return new Resolver(args.getSynchronizationContext());
  }

  private List<EquivalentAddressGroup> resolve() {
    List<EquivalentAddressGroup> groups = new ArrayList<>();
    try {
      for (InetAddress found : HostName.of(address.host()).addresses()) {
        groups.add(new EquivalentAddressGroup(new InetSocketAddress(found, address.port())));
      }
    } catch (UnknownHostException unknown) {
      groups.add(new EquivalentAddressGroup(InetSocketAddress.createUnresolved(address.host(), address.port())));
    }
    return groups;
  }

  /** Its methods are called in the context. */
  private final class Resolver extends NameResolver {
    private final SynchronizationContext context;
    private Listener2 listener;
    private boolean asking;

    Resolver(SynchronizationContext context) {
      this.context = context;
    }

    @Override
    public String getServiceAuthority() {
      return address.authority();
    }

    @Override
    public void start(Listener2 listener) {
      this.listener = listener;
      ask();
    }

    @Override
    public void refresh() {
      HostName.of(address.host()).ended();
      ask();
    }

    private void ask() {
      if (asking) {
        return;
      }
      asking = true;
      try {
        pool.execute(() -> {
          List<EquivalentAddressGroup> groups = resolve();
          context.execute(() -> tell(groups));
        });
      } catch (RejectedExecutionException closed) {
        // The client is closed, and with it this channel.
      }
    }

    private void tell(List<EquivalentAddressGroup> groups) {
      asking = false;
      if (listener != null) {
        listener.onResult2(ResolutionResult.newBuilder().setAddressesOrError(StatusOr.fromValue(groups)).build());
      }
    }

    @Override
    public void shutdown() {
      listener = null;
    }
  }
}
