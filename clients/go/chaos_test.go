//go:build unix

package fencepost_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// Callers give up at any moment, replies get lost, and the server pauses. Whatever happens, no two callers are in a
// lock, and afterwards all locks are free: none was granted to somebody who has gone.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	const names, callers, rounds, ttl = 3, 8, 40, 10 * time.Minute
	server := fenceposttest.Start(t)
	clients := []*fencepost.Client{newClient(t, server.Address), newClient(t, server.Address)}
	var inside [names]atomic.Int32
	work := func(client *fencepost.Client) {
		number := rand.IntN(names)
		ctx, cancel := context.WithTimeout(context.Background(), rand.N(200*time.Millisecond))
		defer cancel()
		lock, err := client.Acquire(ctx, fmt.Sprint("orders/", number), fencepost.WithTTL(ttl),
			fencepost.WithWaitUntilDone())
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			return
		}
		if now := inside[number].Add(1); now != 1 && lock.Valid() {
			t.Errorf("%d are inside", now)
		}
		time.Sleep(rand.N(20 * time.Millisecond))
		inside[number].Add(-1)
		if err := lock.Release(ctx); err != nil && !errors.Is(err, fencepost.ErrOutcomeUnknown) {
			t.Errorf("got %v", err)
		}
	}
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for range rounds {
				work(clients[i%len(clients)])
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	for running := true; running; {
		switch rand.IntN(3) {
		case 0:
			must(t, server.DropReply())
		case 1:
			must(t, server.Pause())
			time.Sleep(rand.N(100 * time.Millisecond))
			must(t, server.Resume())
		}
		select {
		case <-ended:
			running = false
		case <-time.After(rand.N(100 * time.Millisecond)):
		}
	}
	last := newClient(t, server.Address)
	for number := range names {
		must(t, acquire(t, last, fmt.Sprint("orders/", number)).Release(testContext(t)))
	}
}
