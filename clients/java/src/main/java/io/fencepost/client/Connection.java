package io.fencepost.client;

import io.grpc.ManagedChannel;

/**
 * A channel to a server, and what its connections have shown.
 *
 * @param showsCertificate whether the client has a certificate to show
 */
record Connection(ServerAddress address, ManagedChannel channel, Greeting greeting, boolean showsCertificate) {}
