//go:build unix

package fencepost_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"

	fencepost "github.com/fencepost/fencepost-go"
	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

func TestALostGrantIsAskedForAgain(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	change, _ := takeFirst(isGrant)
	lossy := startFront(t, server.Address, change)
	client := newClient(t, lossy.address)
	lock := acquire(t, client, "orders/42")
	sent := lossy.acquires()
	if len(sent) != 2 || sent[0].GetRequestId() != sent[1].GetRequestId() || sent[1].GetAttempt() != 2 {
		t.Fatalf("sent %v", sent)
	}
	info, err := newClient(t, server.Address).Get(testContext(t), "orders/42")
	must(t, err)
	if len(info.Holders) != 1 || info.Holders[0].Token != lock.Token() || info.NewestToken != lock.Token() {
		t.Fatalf("got %+v", info)
	}
	must(t, lock.Release(testContext(t)))
}

func TestALostReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	change, _ := takeFirst(func(response *pb.SessionResponse) bool { return response.GetRelease() != nil })
	lossy := startFront(t, server.Address, change)
	client := newClient(t, lossy.address)
	must(t, acquire(t, client, "orders/42").Release(testContext(t)))
	next, err := newClient(t, server.Address).TryAcquire(testContext(t), "orders/42")
	must(t, err)
	if next.PreviousEnd() != fencepost.EndReleased {
		t.Fatalf("the previous end is %v", next.PreviousEnd())
	}
}

// Less than half of the TTL is left of a grant that arrives late: it is renewed before the caller gets it.
func TestALateGrantIsRenewed(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	change, taken := takeFirst(isGrant)
	slow := startFront(t, server.Address, change)
	client := newClient(t, slow.address)
	const ttl = 3 * time.Second
	go func() {
		grant := <-taken
		<-time.After(ttl * 6 / 10)
		slow.deliver(t, grant)
	}()
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(ttl))
	if left := lock.Remaining(); left < ttl/2 {
		t.Fatalf("%v is left", left)
	}
	renewals := slow.sent(func(request *pb.SessionRequest) bool { return request.GetRenew() != nil })
	if len(slow.acquires()) != 1 || len(renewals) == 0 {
		t.Fatalf("%d acquires, %d renewals", len(slow.acquires()), len(renewals))
	}
	must(t, lock.Release(testContext(t)))
}

// The max_hold leaves less than half of the TTL: one renewal tells that, and more tell nothing else.
func TestALateGrantThatItsMaxHoldBoundsIsRenewedOnce(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	change, taken := takeFirst(isGrant)
	slow := startFront(t, server.Address, change)
	client := newClient(t, slow.address)
	const ttl = 5 * time.Second
	go func() {
		grant := <-taken
		<-time.After(ttl * 6 / 10)
		slow.deliver(t, grant)
	}()
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(ttl), fencepost.WithMaxHold(ttl))
	renewals := slow.sent(func(request *pb.SessionRequest) bool { return request.GetRenew() != nil })
	if left := lock.Remaining(); left > ttl/2 || len(renewals) != 1 {
		t.Fatalf("%v is left, %d renewals", left, len(renewals))
	}
	must(t, lock.Release(testContext(t)))
}

// The validity of a grant is over when it arrives: it is released, and the lock is asked for with another id.
func TestAGrantThatIsOverIsReleased(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	change, taken := takeFirst(isGrant)
	slow := startFront(t, server.Address, change)
	client := newClient(t, slow.address)
	const ttl = time.Second
	go func() {
		grant := <-taken
		<-time.After(ttl)
		slow.deliver(t, grant)
	}()
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(ttl))
	sent := slow.acquires()
	releases := slow.sent(func(request *pb.SessionRequest) bool { return request.GetRelease() != nil })
	if len(sent) != 2 || sent[0].GetRequestId() == sent[1].GetRequestId() || sent[1].GetAttempt() != 1 ||
		len(releases) != 1 {
		t.Fatalf("sent %v and %d releases", sent, len(releases))
	}
	// Otherwise the second request would wait until the first lease expires.
	if lock.PreviousEnd() != fencepost.EndReleased || !lock.Valid() {
		t.Fatalf("the previous end is %v, valid %v", lock.PreviousEnd(), lock.Valid())
	}
}

// The lease of a request has ended before its repetition asks for it: the acquire goes on with another id.
func TestAnEndedRequestIsReplaced(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	change, taken := takeFirst(isGrant)
	lossy := startFront(t, server.Address, change)
	client := newClient(t, lossy.address)
	released := make(chan error, 1)
	go func() {
		request := &pb.ReleaseRequest{LockName: "orders/42", LeaseId: (<-taken).GetAcquire().GetLease().GetLeaseId()}
		_, err := lossy.stub.Release(testContext(t), request)
		released <- err
	}()
	lock := acquire(t, client, "orders/42")
	must(t, <-released)
	sent := lossy.acquires()
	if len(sent) != 3 || sent[0].GetRequestId() != sent[1].GetRequestId() ||
		sent[1].GetRequestId() == sent[2].GetRequestId() {
		t.Fatalf("sent %v", sent)
	}
	must(t, lock.Release(testContext(t)))
}

// The grant is lost on the way, and the caller gives up: the next attempt gets the lease, and releases it.
func TestAnAbandonedAcquireWhoseGrantWasLostIsWithdrawn(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	change, taken := takeFirst(isGrant)
	lossy := startFront(t, server.Address, change)
	client := newClient(t, lossy.address)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-taken
		cancel()
	}()
	if _, err := client.Acquire(ctx, "orders/42"); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	// Nobody renews the lease either, so it would expire after 30 s.
	if next := acquire(t, newClient(t, server.Address), "orders/42"); next.PreviousEnd() != fencepost.EndReleased {
		t.Fatalf("the previous end is %v", next.PreviousEnd())
	}
	sent := lossy.acquires()
	if len(sent) != 2 || sent[0].GetRequestId() != sent[1].GetRequestId() || sent[1].GetAttempt() != 2 {
		t.Fatalf("sent %v", sent)
	}
}

// A wait is ended by one message. Without it, the place in the queue would be kept until another attempt.
func TestACancelledWaitTellsTheServer(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	front := startFront(t, server.Address, func(response *pb.SessionResponse) *pb.SessionResponse { return response })
	direct := newClient(t, server.Address)
	acquire(t, direct, "orders/42")
	ctx, cancel := context.WithCancel(context.Background())
	_, err := newClient(t, front.address).Acquire(ctx, "orders/42", fencepost.WithWaitUntilDone(),
		fencepost.WithOnQueuePosition(func(int) { cancel() }))
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	eventually(t, "the queue is empty", func() bool {
		info, err := direct.Get(testContext(t), "orders/42")
		must(t, err)
		return info.Waiters == 0
	})
	if sent := front.acquires(); len(sent) != 1 {
		t.Fatalf("sent %v", sent)
	}
}

// A server that drains is left at once, not when it ends.
func TestADrainingServerIsLeftAtOnce(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	front := startFront(t, server.Address, func(response *pb.SessionResponse) *pb.SessionResponse { return response })
	client := newClient(t, front.address, server.Address)
	lock := acquire(t, client, "orders/42")
	front.deliver(t, &pb.SessionResponse{Message: &pb.SessionResponse_Draining{Draining: &pb.Draining{}}})
	eventually(t, "acquires go to the next server", func() bool {
		before := len(front.acquires())
		must(t, acquire(t, client, "orders/43").Release(testContext(t)))
		return len(front.acquires()) == before
	})
	must(t, lock.Release(testContext(t)))
}

// A session with too many leases detaches one: it is renewed by itself until it is released.
func TestALeaseThatDoesNotFitOnTheSessionIsRenewedByItself(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	full := startFront(t, server.Address, func(response *pb.SessionResponse) *pb.SessionResponse {
		if detached := response.GetDetached(); detached != nil {
			detached.Reason = pb.Detached_REASON_STREAM_FULL
		}
		return response
	})
	client := newClient(t, full.address)
	const ttl = 2 * time.Second
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(ttl))
	granted := full.sent(func(request *pb.SessionRequest) bool { return request.GetAcquire() != nil })
	handles := []uint32{granted[0].GetAcquire().GetHandle()}
	full.send(t, &pb.SessionRequest{Message: &pb.SessionRequest_Detach{Detach: &pb.DetachLeases{Handles: handles}}})
	outlive(t, ttl, lock)
	renewals := full.sent(func(request *pb.SessionRequest) bool { return request.GetRenew() != nil })
	attachments := full.sent(func(request *pb.SessionRequest) bool { return request.GetAttach() != nil })
	if len(renewals) < 2 || len(attachments) != 0 {
		t.Fatalf("%d renewals, %d attachments", len(renewals), len(attachments))
	}
	must(t, lock.Release(testContext(t)))
	if next := acquire(t, newClient(t, server.Address), "orders/42"); next.PreviousEnd() != fencepost.EndReleased {
		t.Fatalf("the previous end is %v", next.PreviousEnd())
	}
}

// A server refuses an operation because the session has too many: nothing was done, and it is asked again.
func TestAnOperationThatDoesNotFitOnTheSessionIsRepeated(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	detail, err := anypb.New(&errdetails.ErrorInfo{Domain: "fencepost", Reason: "SESSION_FULL"})
	must(t, err)
	refused := false
	full := startFront(t, server.Address, func(response *pb.SessionResponse) *pb.SessionResponse {
		if response.GetAcquire() == nil || refused {
			return response
		}
		refused = true
		return &pb.SessionResponse{Operation: response.GetOperation(), Message: &pb.SessionResponse_Error{
			Error: &pb.OperationError{Code: int32(codes.ResourceExhausted), Details: []*anypb.Any{detail}},
		}}
	})
	held := acquire(t, newClient(t, server.Address), "orders/42")
	_, err = newClient(t, full.address).TryAcquire(testContext(t), "orders/42")
	if contended := as[*fencepost.ContendedError](t, err); contended.Holders[0].Token != held.Token() {
		t.Fatalf("got %v", err)
	}
	if sent := full.acquires(); len(sent) != 2 {
		t.Fatalf("sent %v", sent)
	}
}

// A server that detached a lease without being asked no longer renews it: it is attached again.
func TestADetachedLeaseIsAttachedAgain(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	front := startFront(t, server.Address, func(response *pb.SessionResponse) *pb.SessionResponse { return response })
	client := newClient(t, front.address)
	const ttl = 2 * time.Second
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(ttl))
	granted := front.sent(func(request *pb.SessionRequest) bool { return request.GetAcquire() != nil })
	handles := []uint32{granted[0].GetAcquire().GetHandle()}
	front.send(t, &pb.SessionRequest{Message: &pb.SessionRequest_Detach{Detach: &pb.DetachLeases{Handles: handles}}})
	outlive(t, ttl, lock)
	attachments := front.sent(func(request *pb.SessionRequest) bool { return request.GetAttach() != nil })
	if len(attachments) != 1 {
		t.Fatalf("attached %d times", len(attachments))
	}
	must(t, lock.Release(testContext(t)))
}
