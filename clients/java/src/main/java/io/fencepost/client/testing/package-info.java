/**
 * For the tests of programs that take locks: {@link io.fencepost.client.testing.FencepostServer} runs the real server,
 * which fails when it is told to, and {@link io.fencepost.client.testing.FakeLock} is a lock without a server.
 */
package io.fencepost.client.testing;
