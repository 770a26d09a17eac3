/**
 * The Java client of the Fencepost lock server: locks with fencing tokens. Start at {@link
 * io.fencepost.client.FencepostClient}.
 */
package io.fencepost.client;
