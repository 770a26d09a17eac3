/**
 * Servers for the tests of programs that take locks: {@link io.fencepost.client.testing.FencepostServer} runs the real
 * server, {@link io.fencepost.client.testing.FakeServer} runs in the process and fails when it is told to.
 */
package io.fencepost.client.testing;
