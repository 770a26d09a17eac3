//go:build unix

package fencepost_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	fencepost "github.com/fencepost/fencepost-go"
	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// areReaders checks that some holders are those of two locks that are shared.
func areReaders(t *testing.T, holders []fencepost.LockHolder, first, second *fencepost.Lock) {
	t.Helper()
	if len(holders) != 2 || holders[0].Token != first.Token() || holders[1].Token != second.Token() ||
		!holders[0].Shared || !holders[1].Shared {
		t.Fatalf("held by %+v, want readers with tokens %d and %d", holders, first.Token(), second.Token())
	}
}

func TestReadersHoldALockTogether(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	ctx := testContext(t)
	first := acquire(t, client, "orders/42", fencepost.WithShared(), fencepost.WithHolder("reader-1"))
	second, err := other.TryAcquire(ctx, "orders/42", fencepost.WithShared(), fencepost.WithHolder("reader-2"))
	must(t, err)
	if !first.Valid() || !second.Valid() || second.Token() <= first.Token() {
		t.Fatalf("tokens %d and %d, valid: %v and %v", first.Token(), second.Token(), first.Valid(), second.Valid())
	}

	_, err = other.Acquire(ctx, "orders/42", fencepost.WithWait(50*time.Millisecond))
	areReaders(t, as[*fencepost.TimedOutError](t, err).Holders, first, second)
	if !strings.HasSuffix(err.Error(), ": it is held by reader-1 and reader-2, 0 waiting") {
		t.Fatal(err)
	}
	for info, err := range other.List(ctx, "orders/42") {
		must(t, err)
		areReaders(t, info.Holders, first, second)
		if info.HolderCount != 2 {
			t.Fatalf("%d holders", info.HolderCount)
		}
	}

	must(t, errors.Join(first.Release(ctx), second.Release(ctx)))
	writer := acquire(t, other, "orders/42")
	info, err := client.Get(ctx, "orders/42")
	must(t, err)
	if info.HolderCount != 1 || info.Holders[0].Shared || writer.Token() <= second.Token() {
		t.Fatalf("got %+v", info)
	}
}

// Eight are shown.
func TestARefusalCountsAllReaders(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, writer := newClient(t, server.Address), newClient(t, server.Address)
	for n := range 10 {
		acquire(t, client, "orders/42", fencepost.WithShared(), fencepost.WithHolder(fmt.Sprintf("reader-%d", n)))
	}
	ctx, named, soon := testContext(t), "reader-6 and reader-7 and 2 more", fencepost.WithWait(50*time.Millisecond)
	_, err := writer.TryAcquire(ctx, "orders/42")
	contended := as[*fencepost.ContendedError](t, err)
	if contended.HolderCount != 10 || len(contended.Holders) != 8 || !strings.HasSuffix(err.Error(), named+", 0 waiting") {
		t.Errorf("%d of %d holders: %v", len(contended.Holders), contended.HolderCount, err)
	}
	_, err = writer.Acquire(ctx, "orders/42", soon)
	if timedOut := as[*fencepost.TimedOutError](t, err); timedOut.HolderCount != 10 ||
		!strings.HasSuffix(err.Error(), named+", 0 waiting") {
		t.Errorf("%d holders: %v", timedOut.HolderCount, err)
	}
	// The wait of the second one is over before the turn of the lock.
	for _, wait := range []fencepost.AcquireOption{soon, fencepost.WithWait(1)} {
		_, err = writer.AcquireAll(ctx, []string{"orders/42", "orders/43"}, wait)
		if timedOut := as[*fencepost.TimedOutError](t, err); timedOut.HolderCount != 10 ||
			!strings.HasSuffix(err.Error(), named+", 0 waiting; none was held") {
			t.Errorf("%d holders: %v", timedOut.HolderCount, err)
		}
	}
}

func TestARefusalNamesHoldersAndCountsTheOthers(t *testing.T) {
	t.Parallel()
	one, two, unnamed := fencepost.LockHolder{Holder: "a"}, fencepost.LockHolder{Holder: "b"}, fencepost.LockHolder{}
	delay := &fencepost.LockDelay{Remaining: 24 * time.Second, Holder: "c"}
	for _, test := range []struct {
		holders []fencepost.LockHolder
		count   int
		delay   *fencepost.LockDelay
		state   string
	}{
		{nil, 0, nil, "being offered to the next waiter"},
		{[]fencepost.LockHolder{unnamed}, 1, nil, "held"},
		{[]fencepost.LockHolder{unnamed}, 9, nil, "held by 9 holders"},
		{[]fencepost.LockHolder{one}, 1, nil, "held by a"},
		{[]fencepost.LockHolder{one, two}, 2, nil, "held by a and b"},
		{[]fencepost.LockHolder{one, two}, 10_000, nil, "held by a and b and 9998 more"},
		{[]fencepost.LockHolder{one, unnamed, two}, 3, nil, "held by a and b and 1 more"},
		{
			[]fencepost.LockHolder{one, two}, 3, delay,
			"held by a and b and 1 more, and a place of it is unavailable for another 24s (delay after c)",
		},
	} {
		contended := &fencepost.ContendedError{
			Name: "x", Holders: test.holders, HolderCount: test.count, Delay: test.delay, Waiters: 2,
		}
		if got, want := contended.Error(), "fencepost: x is "+test.state+", 2 waiting"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		timedOut := &fencepost.TimedOutError{
			Name: "x", Holders: test.holders, HolderCount: test.count, Delay: test.delay, Waiters: 2,
		}
		if got, want := timedOut.Error(), "fencepost: timed out waiting for x: it is "+test.state+", 2 waiting"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAReaderWaitsBehindAWriterThatWaits(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	held, served := acquire(t, client, "orders/42", fencepost.WithShared()), make(chan int, 2)
	written := queueUp(t, other, served, 1)
	waiting(t, client, "orders/42", 1)
	_, err := client.TryAcquire(testContext(t), "orders/42", fencepost.WithShared())
	_ = as[*fencepost.ContendedError](t, err)
	read := queueUp(t, client, served, 2, fencepost.WithShared())
	waiting(t, client, "orders/42", 2)
	must(t, held.Release(testContext(t)))
	must(t, <-written)
	must(t, <-read)
	if writer, reader := <-served, <-served; writer != 1 || reader != 2 {
		t.Fatalf("%d was served before %d", writer, reader)
	}
}

// A server of an earlier version refuses what it does not know: nothing is sent that was not asked for.
func TestWhatIsNotAskedForIsNotSent(t *testing.T) {
	t.Parallel()
	front := startFront(t, fenceposttest.Start(t).Address, func(response *pb.SessionResponse) *pb.SessionResponse {
		return response
	})
	client := newClient(t, front.address)
	acquire(t, client, "a")
	acquire(t, client, "b", fencepost.WithShared())
	sent := front.acquires()
	if len(sent) != 2 || sent[0].GetMode() != pb.LockMode_LOCK_MODE_UNSPECIFIED || sent[0].GetOwner() != "" ||
		sent[0].GetMaxWaiters() != 0 || sent[0].GetTellWhenWanted() || sent[1].GetMode() != pb.LockMode_LOCK_MODE_SHARED {
		t.Fatalf("sent %v", sent)
	}
}

func TestSharedDoesNotGoWithSetsAndElections(t *testing.T) {
	t.Parallel()
	nobody, ctx := newClient(t, "127.0.0.1:1"), testContext(t) // what is refused here is not sent
	_, all := nobody.AcquireAll(ctx, abc, fencepost.WithShared())
	_, try := nobody.TryAll(ctx, abc, fencepost.WithShared())
	led := nobody.Lead(ctx, "a", func(context.Context, *fencepost.Lock) error { return nil }, fencepost.WithShared())
	for _, refusal := range []struct {
		err   error
		field string
		text  string
	}{
		{all, "mode", "fencepost: mode cannot be SHARED: the locks of a set are exclusive"},
		{try, "mode", "fencepost: mode cannot be SHARED: the locks of a set are exclusive"},
		{led, "mode", "fencepost: mode cannot be SHARED: an election has one leader at a time"},
	} {
		refused := as[*fencepost.RefusedError](t, refusal.err)
		if refused.Violations[0].Field != refusal.field || !strings.HasPrefix(refused.Error(), refusal.text) {
			t.Errorf("got %v, want %s", refused, refusal.text)
		}
	}
}
