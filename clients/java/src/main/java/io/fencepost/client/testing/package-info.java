/** Help for tests of programs that use the client. */
package io.fencepost.client.testing;
