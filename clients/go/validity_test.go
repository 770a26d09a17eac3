package fencepost

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/internal/clock"
)

const ms = time.Millisecond

func TestValidityCountsFromSending(t *testing.T) {
	sent := clock.Now()
	for name, test := range map[string]struct{ heldFor, ttl, took, want time.Duration }{
		"less drift and margin":             {0, 30_000 * ms, 5 * ms, 28_200 * ms},
		"a short lease, the least margin":   {0, 100 * ms, 5 * ms, 79 * ms},
		"the time in the queue is added":    {60_000 * ms, 30_000 * ms, 60_010 * ms, 88_200 * ms},
		"held no longer than it took":       {3_600_000 * ms, 30_000 * ms, 20 * ms, 28_220 * ms},
		"nothing left is over at once":      {0, 0, 0, -20 * ms},
		"a clock that steps back is no aid": {10 * ms, 1_000 * ms, -5 * ms, 940 * ms},
	} {
		r := reading{sent: sent, read: sent.Add(test.took), heldFor: test.heldFor, ttl: test.ttl}
		if got := r.validUntil().Sub(sent); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestALeaseSurvivesTheLossOfItsStream(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second, time.Hour} {
		// Silence is noticed after half a TTL; the next server does not answer either, the one after does.
		spent := ttl/2 + tickFor(ttl) + reconnectPause(ttl, 0) + answerTimeout(ttl) + tickFor(ttl)
		if valid := ttl - ttl/100 - ttl/20; spent >= valid {
			t.Errorf("%v: %v of %v", ttl, spent, valid)
		}
	}
}

func TestEachOfSeveralServersHasAPartOfTheTime(t *testing.T) {
	for servers, want := range map[int]time.Duration{
		1: 5_000 * ms, 2: 4_500 * ms, 3: 3_000 * ms, 100: answerTimeMin, math.MaxInt: answerTimeMin,
	} {
		if got := answerTime(5_000*ms, 9_000*ms, servers); got != want {
			t.Errorf("%d servers: got %v, want %v", servers, got, want)
		}
	}
	if got := answerTime(20*ms, 9_000*ms, 2); got != 20*ms {
		t.Errorf("got %v", got)
	}
}

// A session on which nothing arrives is left after the part of its server. A wait that the server knows goes on.
func TestAnOperationHasThePartOfItsServer(t *testing.T) {
	s, _, now := attached(t)
	request := &pb.AcquireRequest{WaitTimeout: durationpb.New(time.Minute)}
	op := &operation{acquire: &acquisition{request: request}, session: s, sent: now.Add(ms)}
	for answerTime, want := range map[time.Duration]time.Duration{5_000 * ms: silenceMax, 2_000 * ms: 2_000 * ms} {
		if got := op.answerBy(answerTime).Sub(op.sent); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	s.lastReceived = op.sent
	if got := op.answerBy(4_000 * ms).Sub(op.sent); got != 4_000*ms {
		t.Errorf("got %v", got)
	}
	op.acknowledged = true
	if got := op.answerBy(2_000 * ms).Sub(op.sent); got != time.Minute+callTimeout {
		t.Errorf("got %v", got)
	}
}

func newLease(validFor time.Duration) (*lease, clock.Moment) {
	now := clock.Now()
	held := &lease{name: "orders/42", validUntil: now.Add(validFor), ttl: time.Hour}
	held.token.Store(7)
	held.ctx, held.cancel = context.WithCancelCause(context.Background())
	return held, now
}

func TestTheClockIsReadEachTime(t *testing.T) {
	held, now := newLease(time.Second)
	var lost *LostError
	// No timer runs here.
	if state := held.state(now.Add(time.Second)); !errors.As(state.end, &lost) || lost.Reason != LossSilence {
		t.Fatalf("got %+v", state)
	}
	if !errors.Is(context.Cause(held.ctx), ErrLost) {
		t.Fatalf("got %v", context.Cause(held.ctx))
	}
}

func TestALateRenewalDoesNotReviveALease(t *testing.T) {
	held, now := newLease(time.Second)
	if state := held.state(now); state.end != nil || state.left != time.Second {
		t.Fatalf("got %+v", state)
	}
	// The renewal was answered in time, but is read after the end: no timer had noticed the end.
	held.renewed(reading{sent: now, read: now.Add(time.Second), ttl: time.Hour})
	var lost *LostError
	if state := held.state(now); !errors.As(state.end, &lost) || lost.Reason != LossSilence || state.left != 0 {
		t.Fatalf("got %+v", state)
	}
	if !errors.Is(context.Cause(held.ctx), ErrLost) {
		t.Fatalf("got %v", context.Cause(held.ctx))
	}
}

func TestALeaseThatEndsByItsMaxHoldMissesNoRenewal(t *testing.T) {
	held, now := newLease(10 * time.Second)
	held.ttl, held.hasMaxHold = 10*time.Second, true
	renewed := func(at, ttl time.Duration) { held.renewed(reading{sent: now.Add(at), read: now.Add(at), ttl: ttl}) }
	renewed(4*time.Second, 10*time.Second)
	if !held.state(now.Add(10 * time.Second)).isOverdue() {
		t.Fatal("a renewal is missing")
	}
	renewed(10*time.Second, 8*time.Second)
	renewed(17*time.Second, time.Second)
	if state := held.state(now.Add(17900 * time.Millisecond)); state.isOverdue() || state.end != nil {
		t.Fatalf("got %+v", state)
	}
	var lost *LostError
	if state := held.state(now.Add(18 * time.Second)); !errors.As(state.end, &lost) || lost.Reason != LossMaxHold {
		t.Fatalf("got %+v", state)
	}
}

func TestWithoutAMaxHoldALowerTTLBoundsNothing(t *testing.T) {
	held, now := newLease(10 * time.Second)
	held.ttl = 10 * time.Second
	held.renewed(reading{sent: now, read: now, ttl: 8 * time.Second})
	if state := held.state(now.Add(7 * time.Second)); state.bounded || !state.isOverdue() {
		t.Fatalf("got %+v", state)
	}
	var lost *LostError
	if state := held.state(now.Add(10 * time.Second)); !errors.As(state.end, &lost) || lost.Reason != LossSilence {
		t.Fatalf("got %+v", state)
	}
}

func TestTheEndOfASetIsThatOfALockThatIsLost(t *testing.T) {
	var locks []*Lock
	for _, name := range []string{"a", "b", "c"} {
		held, _ := newLease(time.Minute)
		held.name = name
		locks = append(locks, &Lock{owner: nobody{}, lease: held})
	}
	set := newLockSet(context.Background(), locks)
	if name, err := set.firstEnd(); name != "" || err != nil {
		t.Fatalf("got %q, %v", name, err)
	}
	locks[1].lease.finish(clock.Now(), ErrClosed)
	if name, err := set.firstEnd(); name != "b" || !errors.Is(err, ErrClosed) {
		t.Fatalf("got %q, %v", name, err)
	}
	locks[2].lease.finish(clock.Now(), &LostError{Name: "c", Token: 7, Reason: LossRevoked})
	if name, err := set.firstEnd(); name != "c" || !errors.Is(err, ErrLost) || !errors.Is(set.Err(), ErrLost) {
		t.Fatalf("got %q, %v", name, err)
	}
}

func TestARenewalNeverShortensALease(t *testing.T) {
	held, now := newLease(time.Minute)
	held.renewed(reading{sent: now, read: now, ttl: time.Second})
	if state := held.state(now); state.left != time.Minute {
		t.Fatalf("got %+v", state)
	}
}

func TestTheFirstEndIsFinal(t *testing.T) {
	held, now := newLease(time.Minute)
	held.finish(now, ErrReleased)
	held.finish(now, ErrClosed)
	if state := held.state(now.Add(time.Hour)); !errors.Is(state.end, ErrReleased) {
		t.Fatalf("got %+v", state)
	}
}

func TestPausesAreBounded(t *testing.T) {
	var pauses retryPauses
	for range 40 {
		if pause := pauses.next(0); pause < 25*ms || pause > time.Second {
			t.Fatalf("got %v", pause)
		}
	}
	if pause := pauses.next(time.Minute); pause != time.Minute {
		t.Fatalf("got %v", pause)
	}
	for round := range 100 {
		if pause := reconnectPause(0, round); pause < 50*ms || pause > 2*time.Second {
			t.Fatalf("got %v", pause)
		}
	}
}
