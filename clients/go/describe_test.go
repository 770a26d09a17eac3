//go:build unix

package fencepost_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencepost "github.com/fencepost/fencepost-go"
	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// describe describes a lock, and returns the number of the description.
func describe(t *testing.T, lock *fencepost.Lock, metadata map[string]string, holder string) uint64 {
	t.Helper()
	number, err := lock.Describe(testContext(t), metadata, holder)
	must(t, err)
	return number
}

// refusedDescription is the error of a description.
func refusedDescription(ctx context.Context, lock *fencepost.Lock, metadata map[string]string, holder string) error {
	_, err := lock.Describe(ctx, metadata, holder)
	return err
}

// at is metadata that a holder shows.
func at(address string) map[string]string { return map[string]string{"address": address} }

// shows checks what others see of the holder of a lock.
func shows(
	t *testing.T, client *fencepost.Client, name, holder string, metadata map[string]string, description uint64,
) {
	t.Helper()
	info, err := client.Get(testContext(t), name)
	must(t, err)
	if seen := info.Holders[0]; seen.Holder != holder || !maps.Equal(seen.Metadata, metadata) ||
		seen.Description != description {
		t.Fatalf("got %+v", seen)
	}
}

func TestADescriptionReplacesWhatOthersSee(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	ctx := testContext(t)
	lock := acquire(t, client, "orders/42", fencepost.WithHolder("worker"), fencepost.WithMetadata(at("a")))
	token := lock.Token()
	shows(t, other, "orders/42", "worker", at("a"), 0)
	watch, err := other.Watch(ctx, "orders/42")
	must(t, err)
	defer watch.Close()
	if number := describe(t, lock, at("b"), ""); number != 1 {
		t.Fatalf("got %d", number)
	}
	shows(t, other, "orders/42", "worker", at("b"), 1)
	describe(t, lock, nil, "worker: 50 %")
	shows(t, other, "orders/42", "worker: 50 %", nil, 2)
	for _, holder := range []string{"worker", "worker: 50 %"} {
		event, err := watch.Next()
		must(t, err)
		if event.Kind != fencepost.EventChanged || event.Holder != holder || event.Mode != fencepost.ModeExclusive {
			t.Fatalf("got %+v", event)
		}
	}
	if lock.Holder() != "worker: 50 %" || lock.Token() != token {
		t.Fatalf("got %q, token %d was %d", lock.Holder(), lock.Token(), token)
	}
}

func TestALeaderDescribesItself(t *testing.T) {
	t.Parallel()
	client := newClient(t, fenceposttest.Start(t).Address)
	must(t, client.Lead(testContext(t), "scheduler", func(ctx context.Context, lock *fencepost.Lock) error {
		describe(t, lock, at("10.0.0.7:80"), "")
		shows(t, client, "scheduler", t.Name(), at("10.0.0.7:80"), 1)
		return nil
	}))
}

func TestALostAnswerToADescriptionIsAskedForAgain(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	front := startFront(t, server.Address, pass)
	var fails sync.Once
	front.changed = func() (err error) {
		fails.Do(func() { err = status.Error(codes.Unavailable, "lost") })
		return err
	}
	lock := acquire(t, newClient(t, front.address), "orders/42")
	describe(t, lock, at("a"), "")
	shows(t, newClient(t, server.Address), "orders/42", t.Name(), at("a"), 1)
}

// One that is given up may arrive late, and must not replace the next one.
func TestADescriptionAfterAnUnknownOneHasAHigherNumber(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	front := startFront(t, server.Address, pass)
	ctx, cancel := context.WithCancel(testContext(t))
	lock := acquire(t, newClient(t, front.address), "orders/42")
	front.changed = func() error {
		cancel()
		return status.Error(codes.Unavailable, "lost")
	}
	if err := refusedDescription(ctx, lock, at("a"), ""); !errors.Is(err, fencepost.ErrOutcomeUnknown) {
		t.Fatalf("got %v", err)
	}
	front.changed = nil
	describe(t, lock, at("b"), "")
	shows(t, newClient(t, server.Address), "orders/42", t.Name(), at("b"), 2)
}

// Two processes have one lease by the id of its request, and know nothing of the descriptions of each other.
func TestALeaseIsHandedOverWithItsDescriptions(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	id, ctx := fencepost.WithRequestID(uuid.NewString()), testContext(t)
	before := acquire(t, client, "orders/42", id)
	describe(t, before, at("a"), "")
	after := acquire(t, other, "orders/42", id)
	describe(t, after, at("b"), "")
	describe(t, after, at("c"), "")
	shows(t, other, "orders/42", t.Name(), at("c"), 3)
	refused := as[*fencepost.RefusedError](t, refusedDescription(ctx, before, at("d"), ""))
	if refused.Code != codes.Aborted || refused.Reason != "DESCRIPTION_OUTDATED" {
		t.Fatal(refused)
	}
	shows(t, other, "orders/42", t.Name(), at("c"), 3)
	describe(t, before, at("e"), "")
	shows(t, other, "orders/42", t.Name(), at("e"), 4)
}

func TestALockThatHasEndedIsNotDescribed(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	front := startFront(t, server.Address, func(response *pb.SessionResponse) *pb.SessionResponse {
		if response.GetLost() != nil {
			return nil
		}
		return response
	})
	calls := 0
	front.changed = func() error { calls++; return nil }
	client, ctx := newClient(t, front.address), testContext(t)
	lock, released := acquire(t, client, "orders/42"), acquire(t, client, "orders/43")
	must(t, server.Lose("orders/42"))
	for range 2 { // only the answer tells of the loss
		err := refusedDescription(ctx, lock, nil, "")
		if loss := as[*fencepost.LostError](t, err); loss.Reason != fencepost.LossRevoked || !errors.Is(lock.Err(), loss) {
			t.Fatalf("got %v, and then %v", err, lock.Err())
		}
	}
	must(t, released.Release(ctx))
	if err := refusedDescription(ctx, released, nil, ""); !errors.Is(err, fencepost.ErrReleased) {
		t.Fatalf("got %v", err)
	}
	if calls != 1 {
		t.Fatalf("%d calls", calls)
	}
}

func TestADescriptionHasTheBoundsOfTheRequest(t *testing.T) {
	t.Parallel()
	client, ctx := newClient(t, fenceposttest.Start(t).Address), testContext(t)
	lock := acquire(t, client, "orders/42")
	for field, err := range map[string]error{
		"metadata":         refusedDescription(ctx, lock, at(string(make([]byte, 5000))), ""),
		"metadata, binary": refusedDescription(ctx, lock, at("\xff"), ""),
		"holder":           refusedDescription(ctx, lock, nil, string(make([]byte, 300))),
	} {
		refused := as[*fencepost.RefusedError](t, err)
		if refused.Reason != "INVALID_FIELD" || refused.Violations[0].Field != field[:len(refused.Violations[0].Field)] {
			t.Errorf("%s: got %v", field, refused)
		}
	}
	describe(t, lock, at("a"), "")
}
