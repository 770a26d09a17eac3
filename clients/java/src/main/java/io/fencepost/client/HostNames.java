package io.fencepost.client;

import io.grpc.EquivalentAddressGroup;
import io.grpc.NameResolver;
import io.grpc.NameResolverRegistry;
import io.grpc.Status;
import io.grpc.StatusOr;
import java.net.InetSocketAddress;
import java.net.URI;
import java.util.List;

/**
 * Resolves the names of hosts as gRPC does, but passes a failure on as an address that cannot be connected to: gRPC
 * would log a warning with a stack trace at every attempt. The failure reaches the caller as that of the connection,
 * and the next attempt resolves the name again.
 */
final class HostNames extends NameResolver.Factory {
  private static final NameResolver.Factory DEFAULT = NameResolverRegistry.getDefaultRegistry().asFactory();

  private final ServerAddress address;

  HostNames(ServerAddress address) {
    this.address = address;
  }

  @Override
  public String getDefaultScheme() {
    return DEFAULT.getDefaultScheme();
  }

  @Override
  public NameResolver newNameResolver(URI target, NameResolver.Args args) {
    NameResolver resolver = DEFAULT.newNameResolver(target, args);
    return resolver == null ? null : new Quiet(resolver);
  }

  private final class Quiet extends NameResolver {
    private final NameResolver resolver;

    Quiet(NameResolver resolver) {
      this.resolver = resolver;
    }

    @Override
    public String getServiceAuthority() {
      return resolver.getServiceAuthority();
    }

    @Override
    public void start(Listener2 listener) {
      resolver.start(new Listener2() {
        @Override
        public void onResult(ResolutionResult result) {
          listener.onResult(reachable(result));
        }

        @Override
        public Status onResult2(ResolutionResult result) {
          return listener.onResult2(reachable(result));
        }

        @Override
        public void onError(Status failure) {
          listener.onResult(unresolved(ResolutionResult.newBuilder()));
        }
      });
    }

    private ResolutionResult reachable(ResolutionResult result) {
      return result.getAddressesOrError().hasValue() ? result : unresolved(result.toBuilder());
    }

    private ResolutionResult unresolved(ResolutionResult.Builder result) {
      InetSocketAddress nowhere = InetSocketAddress.createUnresolved(address.host(), address.port());
      return result.setAddressesOrError(StatusOr.fromValue(List.of(new EquivalentAddressGroup(nowhere)))).build();
    }

    @Override
    public void refresh() {
      resolver.refresh();
    }

    @Override
    public void shutdown() {
      resolver.shutdown();
    }
  }
}
