package io.fencepost.client;

import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * The servers of a client: which ones fail, for the log, and for the names that must be resolved anew; and which ones
 * have another store.
 */
final class Servers {
  private final List<ServerAddress> addresses;
  private final Log log;
  private final Set<Integer> failing = new HashSet<>();
  private final Stores stores;

  Servers(List<ServerAddress> addresses, Log log) {
    this.addresses = addresses;
    this.log = log;
    this.stores = new Stores(addresses.size());
  }

  int count() {
    return addresses.size();
  }

  /** How long one server gets to answer a call that does not wait. */
  long answerTime() {
    return Timing.answerTime(Timing.CALL_TIMEOUT, Timing.RETRY_FOR, addresses.size());
  }

  ServerAddress address(int server) {
    return addresses.get(server);
  }

  int after(int server) {
    return (server + 1) % addresses.size();
  }

  /** A server failed. Logged once until it works again, however often it is tried. */
  void failed(int server, Failure failure) {
    ServerAddress address = addresses.get(server);
    if (failure.isLocal() && !address.isUnix()) {
      HostName.of(address.host()).failed();
    }
    synchronized (this) {
      if (!failing.add(server)) {
        return;
      }
    }
    log.info("server " + address + " failed (" + failure.message() + "), trying " + addresses.get(after(server)));
  }

  /** A connection to a server was made and answered. */
  void works(int server) {
    ServerAddress address = addresses.get(server);
    if (!address.isUnix()) {
      HostName.of(address.host()).works();
    }
    synchronized (this) {
      failing.remove(server);
    }
  }

  /** A server told the id of its store. */
  void toldStore(int server, String id) {
    stores.told(server, id).ifPresent(other -> {
      String why = Facts.OTHER_STORE.replace("{}", addresses.get(other).toString());
      log.warn(addresses.get(server) + " " + why);
    });
  }

  @Override
  public String toString() {
    return addresses.toString();
  }
}
