//go:build unix

package fencepost_test

import (
	"context"
	"errors"
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
