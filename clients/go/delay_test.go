//go:build unix

package fencepost_test

import (
	"errors"
	"regexp"
	"testing"
	"time"

	fencepost "github.com/fencepost/fencepost-go"
	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// isDelay checks a delay of up to an hour.
func isDelay(t *testing.T, delay *fencepost.LockDelay, holder string, token uint64) {
	t.Helper()
	if delay == nil || delay.Holder != holder || delay.Token != token || delay.Remaining <= 0 ||
		delay.Remaining > time.Hour {
		t.Fatalf("got %+v, want that of %s with token %d", delay, holder, token)
	}
}

func TestALockIsUnavailableAfterAReleaseWithinItsMinHold(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	lock := acquire(t, client, "jobs/7", fencepost.WithMinHold(time.Hour), fencepost.WithHolder("worker-7"))
	ctx := testContext(t)
	must(t, lock.Release(ctx))

	_, err := other.TryAcquire(ctx, "jobs/7")
	contended := as[*fencepost.ContendedError](t, err)
	isDelay(t, contended.Delay, "worker-7", lock.Token())
	want := `^fencepost: jobs/7 is unavailable for another [0-9hms.]+ \(delay after worker-7\), 0 waiting$`
	if len(contended.Holders) != 0 || !regexp.MustCompile(want).MatchString(err.Error()) {
		t.Fatalf("got %v, held by %v", err, contended.Holders)
	}
	_, err = other.Acquire(ctx, "jobs/7", fencepost.WithWait(50*time.Millisecond))
	isDelay(t, as[*fencepost.TimedOutError](t, err).Delay, "worker-7", lock.Token())
	_, err = other.AcquireAll(ctx, []string{"jobs/6", "jobs/7"})
	isDelay(t, as[*fencepost.ContendedError](t, err).Delay, "worker-7", lock.Token())

	info, err := other.Get(ctx, "jobs/7")
	must(t, err)
	isDelay(t, info.Delay, "worker-7", lock.Token())
	listed := 0
	for info, err := range other.List(ctx, "jobs/7") {
		must(t, err)
		isDelay(t, info.Delay, "worker-7", lock.Token())
		listed++
	}
	if listed != 1 || len(info.Holders) != 0 {
		t.Fatalf("listed %d times, got %+v", listed, info)
	}
}

func TestALockIsAvailableAfterItsMinHold(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	const minHold = 1500 * time.Millisecond
	begun := time.Now()
	must(t, acquire(t, client, "jobs/7", fencepost.WithMinHold(minHold)).Release(testContext(t)))
	next := acquire(t, other, "jobs/7")
	if waited := time.Since(begun); waited < minHold || next.PreviousEnd() != fencepost.EndReleased {
		t.Fatalf("acquired after %v, the previous end is %v", waited, next.PreviousEnd())
	}
	if info, err := client.Get(testContext(t), "jobs/7"); err != nil || info.Delay != nil {
		t.Fatalf("got %+v, %v", info, err)
	}
}

// The holder is cut off until its lease has expired. When it is back it says that it has stopped.
func TestALateReleaseEndsALockDelay(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	through := startProxy(t, server.Address)
	client, other := newClient(t, through.address), newClient(t, server.Address)
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(time.Second), fencepost.WithLockDelay(time.Minute))
	through.setSilent(true)
	_ = lost(t, lock)
	eventually(t, "the lease expires", func() bool {
		info, err := other.Get(testContext(t), "orders/42")
		must(t, err)
		return info.Delay != nil
	})
	_, err := other.TryAcquire(testContext(t), "orders/42")
	isDelay(t, as[*fencepost.ContendedError](t, err).Delay, t.Name(), lock.Token())
	through.setSilent(false)
	begun := time.Now()
	if err := lock.Release(testContext(t)); !errors.Is(err, fencepost.ErrLost) {
		t.Fatalf("got %v", err)
	}
	next := acquire(t, other, "orders/42")
	if waited := time.Since(begun); waited > 30*time.Second || next.PreviousEnd() != fencepost.EndExpired {
		t.Fatalf("acquired after %v, the previous end is %v", waited, next.PreviousEnd())
	}
}

// The server has reported the end, so a release changes nothing but the delay.
func TestALossThatTheServerReportsIsReleasedIfThereIsALockDelay(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	for name, test := range map[string]struct {
		delay    time.Duration
		releases int
	}{"with": {time.Minute, 1}, "without": {0, 0}} {
		front := startFront(t, server.Address, func(response *pb.SessionResponse) *pb.SessionResponse { return response })
		client := newClient(t, front.address)
		lock := acquire(t, client, name, fencepost.WithLockDelay(test.delay))
		acquired := front.sent(func(request *pb.SessionRequest) bool { return request.GetAcquire() != nil })
		front.deliver(t, &pb.SessionResponse{Message: &pb.SessionResponse_Lost{Lost: &pb.Lost{
			Handle: acquired[0].GetAcquire().GetHandle(), End: pb.LeaseEnd_LEASE_END_EXPIRED,
		}}})
		if loss := lost(t, lock); loss.Reason != fencepost.LossExpired {
			t.Fatalf("got %+v", loss)
		}
		if err := lock.Release(testContext(t)); !errors.Is(err, fencepost.ErrLost) {
			t.Fatalf("got %v", err)
		}
		must(t, client.Close(testContext(t))) // the release is answered
		releases := front.sent(func(request *pb.SessionRequest) bool { return request.GetRelease() != nil })
		if len(releases) != test.releases {
			t.Errorf("%s a delay: %d releases", name, len(releases))
		}
	}
}

func TestADelayIsExplained(t *testing.T) {
	t.Parallel()
	delay := &fencepost.LockDelay{Remaining: 24*time.Second + 400*time.Microsecond, Holder: "worker-7", Token: 7}
	unnamed := &fencepost.LockDelay{Remaining: 90 * time.Second}
	const contended, timedOut = "fencepost: jobs/7 is ", "fencepost: timed out waiting for jobs/7: it is "
	for want, err := range map[string]error{
		contended + "unavailable for another 24s (delay after worker-7), 2 waiting": &fencepost.ContendedError{
			Name: "jobs/7", Delay: delay, Waiters: 2,
		},
		timedOut + "unavailable for another 1m30s (delay after its last lease), 0 waiting": &fencepost.TimedOutError{
			Name: "jobs/7", Delay: unnamed,
		},
	} {
		if err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A server of an earlier version refuses what it does not know: nothing is sent that was not asked for.
func TestDelaysThatAreNotAskedForAreNotSent(t *testing.T) {
	t.Parallel()
	front := startFront(t, fenceposttest.Start(t).Address, func(response *pb.SessionResponse) *pb.SessionResponse {
		return response
	})
	client := newClient(t, front.address)
	acquire(t, client, "a")
	acquire(t, client, "b", fencepost.WithMinHold(0), fencepost.WithLockDelay(0))
	for _, sent := range front.acquires() {
		if sent.GetMinHold() != nil || sent.GetLockDelay() != nil {
			t.Errorf("sent %v", sent)
		}
	}
	acquire(t, client, "c", fencepost.WithMinHold(time.Hour), fencepost.WithLockDelay(time.Minute))
	sent := front.acquires()
	last := sent[len(sent)-1]
	if last.GetMinHold().AsDuration() != time.Hour || last.GetLockDelay().AsDuration() != time.Minute {
		t.Errorf("sent %v", last)
	}
}
