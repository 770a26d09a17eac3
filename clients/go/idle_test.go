//go:build unix

package fencepost_test

import (
	"errors"
	"testing"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// A session without use ends. That is no reason to leave its server, or to report a failure.
func TestAnIdleSessionEndsAndItsServerStays(t *testing.T) {
	t.Parallel()
	first, second := fenceposttest.Start(t), fenceposttest.Start(t)
	client := newClient(t, first.Address, second.Address)
	must(t, acquire(t, client, "orders/42").Release(testContext(t)))
	eventually(t, "the session ends", func() bool {
		idle, failed := fencepost.IdleState(client)
		must(t, failed)
		return idle
	})
	acquire(t, client, "orders/42")
	info, err := newClient(t, first.Address).Get(testContext(t), "orders/42")
	if err != nil || len(info.Holders) != 1 {
		t.Fatalf("got %+v, %v", info, err)
	}
}

// A lease is granted after Close has collected those to release.
func TestAGrantDuringCloseIsReleased(t *testing.T) {
	client := newClient(t, fenceposttest.Start(t).Address)
	lock := acquire(t, client, "orders/42")
	late, ended, err := fencepost.GrantDuringClose(testContext(t), client, lock)
	if late != nil || !errors.Is(err, fencepost.ErrClosed) || !errors.Is(lock.Err(), fencepost.ErrClosed) {
		t.Fatalf("got %v, %v, %v", late, err, lock.Err())
	}
	must(t, lock.Release(testContext(t)))
	ended()
}
