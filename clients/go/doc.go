// Package fencepost is the client of Fencepost, the lock server with fencing tokens.
//
//	client, err := fencepost.New(fencepost.Config{Servers: []string{"a:7420", "b:7420"}})
//	if err != nil {
//		return err
//	}
//	defer client.Close(context.Background())
//	return client.Do(ctx, "orders/42", func(ctx context.Context, token uint64) error {
//		return ship(ctx, token) // send the token with every write
//	})
//
// # What a lock promises
//
// While [Lock.Valid] is true, no other process holds the lock, provided that clocks run at nearly the same rate and the
// server's store loses no data. The check and the action that follows are two steps, and a process can be paused between
// them. So send the fencing token with every write to the store that the lock protects, and have the store refuse lower
// tokens: that holds whatever the timing.
//
// All locks of a [Client] share one stream. Each is renewed in the background until it is released or lost.
// [Lock.Context] is done when the lock is lost: as soon as the server reports it, at the latest when its validity ends by
// the local clock, which on Linux, macOS and Windows counts the time that the machine is suspended. Silence means lost.
//
// # Calls that fail
//
// A call whose outcome is unknown (connection lost, no answer in time) is repeated with the same ids, on another server
// if there is one. Repetitions have the effect of one call. A call that is given up is cleaned up in the background: a
// lock that it may have been granted is released.
//
// Contention is an error of its own type, and so are all other errors that a caller can act on:
//
//	var contended *fencepost.ContendedError
//	if errors.As(err, &contended) {
//		log.Printf("%v: %d wait", err, contended.Waiters) // orders/42 is held by …
//	}
package fencepost
