//go:build unix

package fencepost_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// newVault returns a client of the server whose function for the token fails while it is told to, and takes a while.
func newVault(t *testing.T, server *fenceposttest.Server, takes time.Duration) (
	client *fencepost.Client, asked *atomic.Int32, down *atomic.Bool,
) {
	t.Helper()
	asked, down = &atomic.Int32{}, &atomic.Bool{}
	client, err := fencepost.New(fencepost.Config{
		Servers: []string{server.Address},
		Token: func(context.Context) (string, error) {
			asked.Add(1)
			time.Sleep(takes)
			if down.Load() {
				// The code of this error says nothing about the servers.
				return "", status.Error(codes.Unavailable, "the vault is down")
			}
			return "secret", nil
		},
	})
	must(t, err)
	t.Cleanup(func() { must(t, client.Close(context.Background())) })
	return client, asked, down
}

func wantNoToken(t *testing.T, err error) {
	t.Helper()
	refused := as[*fencepost.RefusedError](t, err)
	if refused.Code != codes.Unauthenticated || !strings.Contains(refused.Message, "no bearer token: ") ||
		!strings.Contains(refused.Message, "the vault is down") {
		t.Fatalf("got %v", err)
	}
}

func TestAFunctionForTheTokenThatFailsEndsTheCallThatAskedIt(t *testing.T) {
	t.Parallel()
	client, asked, down := newVault(t, fenceposttest.Start(t), 0)
	down.Store(true)
	_, err := client.Acquire(testContext(t), "orders/42")
	wantNoToken(t, err)
	_, err = client.Get(testContext(t), "orders/42")
	wantNoToken(t, err)
	if got := asked.Load(); got != 2 {
		t.Fatalf("asked %d times", got)
	}
}

func TestAFunctionForTheTokenThatFailsForAMomentCostsNoLock(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, asked, down := newVault(t, server, 0)
	const ttl = 3 * time.Second
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(ttl))
	down.Store(true)
	must(t, server.DropReply())
	_, err := client.TryAcquire(testContext(t), "orders/43")
	wantNoToken(t, err)
	tries := asked.Load()
	eventually(t, "the session asks again, for the lock", func() bool { return asked.Load() > tries })
	down.Store(false)
	outlive(t, ttl, lock)
	must(t, lock.Release(testContext(t)))
}

// The function takes longer than a server may take to answer, also to a session that takes over a lease.
func TestASlowFunctionForTheTokenIsNotASlowServer(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, _, _ := newVault(t, server, 3500*time.Millisecond)
	const ttl = 10 * time.Second
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(ttl))
	must(t, server.DropReply())
	_, _ = client.TryAcquire(testContext(t), "orders/42") // its answer ends the stream
	outlive(t, ttl, lock)
	must(t, lock.Release(testContext(t)))
}

func TestATokenThatCannotBeSentIsRefusedAndNotShown(t *testing.T) {
	server := fenceposttest.Start(t)
	for _, token := range []string{"hush\nhush", "hush\x00", "hush \u20ac", "", "\n"} {
		client, err := fencepost.New(fencepost.Config{
			Servers: []string{server.Address},
			Token:   func(context.Context) (string, error) { return token, nil },
		})
		must(t, err)
		_, acquiring := client.TryAcquire(testContext(t), "orders/42")
		_, getting := client.Get(testContext(t), "orders/42")
		for _, err := range []error{acquiring, getting} {
			refused := as[*fencepost.RefusedError](t, err)
			if refused.Code != codes.Unauthenticated || !strings.Contains(err.Error(), "the token ") ||
				strings.Contains(err.Error(), "hush") {
				t.Errorf("%q: got %v", token, err)
			}
		}
		must(t, client.Close(testContext(t)))
	}
}
