//go:build unix

package fencepost_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// outlive waits until a lock has been held for two of its TTLs, and checks that it is valid all the time.
func outlive(t *testing.T, ttl time.Duration, locks ...*fencepost.Lock) {
	t.Helper()
	for end := time.Now().Add(2 * ttl); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for _, lock := range locks {
			if !lock.Valid() {
				t.Fatalf("lost: %v", lock.Err())
			}
		}
	}
}

// within waits for something that must happen.
func within(t *testing.T, happens <-chan struct{}) {
	t.Helper()
	select {
	case <-happens:
	case <-time.After(patience):
		t.Fatal("it does not happen")
	}
}

// lost waits for the loss of a lock.
func lost(t *testing.T, lock *fencepost.Lock) *fencepost.LostError {
	t.Helper()
	select {
	case <-lock.Context().Done():
	case <-time.After(patience):
		t.Fatal("the lock is not lost")
	}
	if lock.Valid() || lock.Remaining() != 0 {
		t.Fatal("a lost lock is valid")
	}
	return as[*fencepost.LostError](t, context.Cause(lock.Context()))
}

func TestALockIsKeptPastItsTTL(t *testing.T) {
	server := fenceposttest.Start(t)
	client := newClient(t, server.Address)
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(2*time.Second))
	outlive(t, 2*time.Second, lock)
	must(t, lock.Release(testContext(t)))
}

func TestAnotherServerTakesOverWhenTheFirstIsKilled(t *testing.T) {
	t.Parallel()
	redis, _ := startRedis(t)
	first, second := fenceposttest.Start(t, "--store", redis), fenceposttest.Start(t, "--store", redis)
	client := newClient(t, first.Address, second.Address)
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(2*time.Second))
	waiting := make(chan error, 1)
	other := newClient(t, first.Address, second.Address)
	queued := make(chan struct{})
	go func() {
		next, err := other.Acquire(testContext(t), "orders/42", fencepost.WithWait(patience),
			fencepost.WithOnQueuePosition(once(queued)))
		if err == nil && next.Token() <= lock.Token() {
			err = fmt.Errorf("token %d after %d", next.Token(), lock.Token())
		}
		waiting <- err
	}()
	<-queued
	first.Kill()
	outlive(t, 2*time.Second, lock)
	must(t, lock.Release(testContext(t)))
	must(t, <-waiting)
}

func TestADrainMovesLocksToAnotherServer(t *testing.T) {
	t.Parallel()
	redis, _ := startRedis(t)
	first, second := fenceposttest.Start(t, "--store", redis), fenceposttest.Start(t, "--store", redis)
	client := newClient(t, first.Address, second.Address)
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(2*time.Second))
	first.Signal(syscall.SIGTERM)
	outlive(t, 2*time.Second, lock)
	must(t, lock.Release(testContext(t)))
}

func TestTheOnlyServerServesUntilTheGraceIsOver(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t, "--drain-timeout", "10s")
	client := newClient(t, server.Address)
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(2*time.Second))
	server.Signal(syscall.SIGTERM)
	outlive(t, 2*time.Second, lock)
	must(t, lock.Release(testContext(t)))
}

func TestALockIsLostWhenAllServersAreGone(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	atRisk := make(chan struct{}, 1)
	lock := acquire(t, newClient(t, server.Address), "orders/42", fencepost.WithTTL(time.Second),
		fencepost.WithOnAtRisk(func() { atRisk <- struct{}{} }))
	server.Kill()
	within(t, atRisk)
	if got := lost(t, lock); got.Reason != fencepost.LossSilence || got.Token != lock.Token() {
		t.Fatalf("got %+v", got)
	}
}

func TestARevokedLockIsLost(t *testing.T) {
	server := fenceposttest.Start(t)
	lock := acquire(t, newClient(t, server.Address), "orders/42")
	output, err := server.Command("force-release", "--token", fmt.Sprint(lock.Token()), "--reason", "test", "orders/42")
	if err != nil {
		t.Fatal(output)
	}
	if got := lost(t, lock); got.Reason != fencepost.LossRevoked || got.SuccessorToken != 0 {
		t.Fatalf("got %+v", got)
	}
	if err := lock.Release(testContext(t)); as[*fencepost.LostError](t, err).Reason != fencepost.LossRevoked {
		t.Fatal(err)
	}
}

// While Redis is away, nothing can be renewed. A lock that is at risk is kept if Redis is back in time.
func TestALockIsKeptWhenRedisPauses(t *testing.T) {
	t.Parallel()
	redis, process := startRedis(t)
	server := fenceposttest.Start(t, "--store", redis)
	atRisk := make(chan struct{}, 1)
	const ttl = 6 * time.Second
	lock := acquire(t, newClient(t, server.Address), "orders/42", fencepost.WithTTL(ttl),
		fencepost.WithOnAtRisk(func() { atRisk <- struct{}{} }))
	must(t, process.Signal(syscall.SIGSTOP))
	within(t, atRisk)
	if !lock.Valid() {
		t.Fatalf("at risk is not lost: %v", lock.Err())
	}
	must(t, process.Signal(syscall.SIGCONT))
	eventually(t, "the lock is renewed", func() bool {
		if !lock.Valid() {
			t.Fatalf("lost: %v", lock.Err())
		}
		return lock.Remaining() > ttl*2/3
	})
	must(t, lock.Release(testContext(t)))
}
