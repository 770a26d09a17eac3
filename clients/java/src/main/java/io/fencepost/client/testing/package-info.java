/**
 * For the tests of programs that take locks: {@link io.fencepost.client.testing.FencepostServer} runs the real server,
 * which fails when it is told to.
 */
package io.fencepost.client.testing;
