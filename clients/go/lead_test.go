//go:build unix

package fencepost_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// A term is one call of the body of an election: it lasts until the test ends it, whatever its context says.
type term struct {
	ctx  context.Context
	lock *fencepost.Lock
	end  chan error
}

// lead starts an elector, and returns its terms and its result.
func lead(
	ctx context.Context, client *fencepost.Client, name string, options ...fencepost.AcquireOption,
) (<-chan term, <-chan error) {
	terms, done := make(chan term), make(chan error, 1)
	go func() {
		done <- client.Lead(ctx, name, func(ctx context.Context, lock *fencepost.Lock) error {
			next := term{ctx: ctx, lock: lock, end: make(chan error)}
			terms <- next
			return <-next.end
		}, options...)
	}()
	return terms, done
}

// next is what arrives next.
func next[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case arrived := <-from:
		return arrived
	case <-time.After(patience):
		t.Fatal("it does not arrive")
		panic("unreachable")
	}
}

func TestOneLeadsAtATime(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	ctx := testContext(t)
	var leading, terms atomic.Int32
	finish, done := make(chan error), make(chan error, 2)
	tokens := make(chan uint64, 2)
	for range 2 {
		client := newClient(t, server.Address)
		go func() {
			done <- client.Lead(ctx, "scheduler", func(_ context.Context, lock *fencepost.Lock) error {
				defer leading.Add(-1)
				if leading.Add(1) != 1 {
					t.Error("two lead")
				}
				terms.Add(1)
				tokens <- lock.Token()
				return <-finish
			})
		}()
	}
	first := next(t, tokens)
	watcher := newClient(t, server.Address)
	waitsFor(t, watcher, "scheduler", 1)
	if terms.Load() != 1 {
		t.Fatalf("%d terms", terms.Load())
	}
	finish <- nil
	must(t, next(t, done))
	second := next(t, tokens)
	if second <= first || terms.Load() != 2 {
		t.Fatalf("token %d after %d, %d terms", second, first, terms.Load())
	}
	failed := errors.New("the work failed")
	finish <- failed
	if err := next(t, done); !errors.Is(err, failed) || errors.Is(err, fencepost.ErrLost) {
		t.Fatalf("got %v", err)
	}
	if !isFree(t, watcher, "scheduler") {
		t.Fatal("the lock is not released")
	}
}

func TestALeaderThatLosesItsLockCampaignsAgain(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, log := newJournal(t, server.Address)
	terms, done := lead(testContext(t), client, "scheduler")
	for _, failed := range []error{errors.New("oops"), context.Canceled, nil} {
		led := next(t, terms)
		must(t, server.Lose("scheduler"))
		within(t, led.ctx.Done())
		if cause := context.Cause(led.ctx); !errors.Is(cause, fencepost.ErrLost) {
			t.Fatalf("the cause is %v", cause)
		}
		// It does not campaign as long as the body works.
		between := acquire(t, client, "scheduler")
		waitsFor(t, client, "scheduler", 0)
		led.end <- failed
		waitsFor(t, client, "scheduler", 1)
		if between.Token() <= led.lock.Token() {
			t.Fatalf("token %d after %d", between.Token(), led.lock.Token())
		}
		must(t, between.Release(testContext(t)))
	}
	last := next(t, terms)
	last.end <- nil
	must(t, next(t, done))
	must(t, client.Close(testContext(t)))
	dropped := log.with("the leader of scheduler failed after the loss of the lock: oops")
	if len(dropped) != 1 || len(log.with("failed after the loss")) != 1 || !strings.Contains(dropped[0], "level=WARN") ||
		!strings.Contains(dropped[0], "lock=scheduler token=") {
		t.Fatalf("got %q", log.lines)
	}
}

// Nobody reports this loss: the validity ends, and the servers are away for the next campaign as well.
func TestALeaderThatIsCutOffIsToldAndElectedAgain(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	through := startProxy(t, server.Address)
	terms, done := lead(testContext(t), newClient(t, through.address), "scheduler", fencepost.WithTTL(2*time.Second))
	first := next(t, terms)
	through.setSilent(true)
	within(t, first.ctx.Done())
	loss := as[*fencepost.LostError](t, context.Cause(first.ctx))
	if loss.Reason != fencepost.LossSilence {
		t.Fatalf("got %+v", loss)
	}
	first.end <- first.ctx.Err()
	through.setSilent(false)
	second := next(t, terms)
	if second.lock.Token() <= first.lock.Token() || !second.lock.Valid() {
		t.Fatalf("token %d after %d", second.lock.Token(), first.lock.Token())
	}
	second.end <- nil
	must(t, next(t, done))
}

func TestATermIsNoLongerThanItsMaxHold(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	terms, done := lead(testContext(t), newClient(t, server.Address), "scheduler",
		fencepost.WithTTL(time.Second), fencepost.WithMaxHold(1500*time.Millisecond))
	first := next(t, terms)
	within(t, first.ctx.Done())
	if loss := as[*fencepost.LostError](t, context.Cause(first.ctx)); loss.Reason != fencepost.LossMaxHold {
		t.Fatalf("got %+v", loss)
	}
	first.end <- first.ctx.Err()
	second := next(t, terms)
	if second.lock.Token() <= first.lock.Token() {
		t.Fatalf("token %d after %d", second.lock.Token(), first.lock.Token())
	}
	second.end <- nil
	must(t, next(t, done))
}

// The caller gives up: the lock is released when the body has returned, and not before.
func TestALeaderThatIsCancelledIsAwaitedBeforeTheRelease(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	ctx, cancel := context.WithCancel(testContext(t))
	terms, done := lead(ctx, client, "scheduler")
	led := next(t, terms)
	watch, err := other.Watch(testContext(t), "scheduler")
	must(t, err)
	defer watch.Close()
	cancel()
	within(t, led.ctx.Done())
	for range 10 {
		// On the session on which a release would have been sent.
		_, err := client.TryAcquire(testContext(t), "scheduler")
		contended := as[*fencepost.ContendedError](t, err)
		if contended.Holders[0].Token != led.lock.Token() || !led.lock.Valid() || len(done) != 0 {
			t.Fatalf("got %v, valid %v", contended, led.lock.Valid())
		}
	}
	led.end <- led.ctx.Err()
	if err := next(t, done); !errors.Is(err, context.Canceled) || errors.Is(err, fencepost.ErrLost) {
		t.Fatalf("got %v", err)
	}
	event, err := watch.Next()
	if must(t, err); event.Kind != fencepost.EventReleased || event.Token != led.lock.Token() {
		t.Fatalf("got %+v", event)
	}
}

func TestACampaignThatIsCancelledLeavesNoWaiter(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, log := newJournal(t, server.Address)
	other := newClient(t, server.Address)
	held, enough := acquire(t, other, "scheduler"), errors.New("enough")
	ctx, cancel := context.WithCancelCause(testContext(t))
	_, done := lead(ctx, client, "scheduler")
	waitsFor(t, other, "scheduler", 1)
	cancel(enough)
	if err := next(t, done); !errors.Is(err, context.Canceled) || !errors.Is(err, enough) {
		t.Fatalf("got %v", err)
	}
	waitsFor(t, other, "scheduler", 0)

	// A deadline does not end a campaign before its time.
	short, stop := context.WithTimeout(testContext(t), time.Second)
	defer stop()
	_, done = lead(short, client, "scheduler")
	if err := next(t, done); !errors.Is(err, context.DeadlineExceeded) || short.Err() == nil {
		t.Fatalf("got %v, and the context says %v", err, short.Err())
	}
	must(t, held.Release(testContext(t)))
	must(t, acquire(t, other, "scheduler").Release(testContext(t)))
	if told := log.with("campaign"); len(told) != 0 {
		t.Fatalf("got %q", told)
	}
}

// The longest wait of the server is over again and again.
func TestACampaignLastsLongerThanTheLongestWait(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t, "--wait-max", "100ms")
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	held, joined := acquire(t, other, "scheduler"), make(chan int, 1000)
	terms, done := lead(testContext(t), client, "scheduler", fencepost.WithOnQueuePosition(func(ahead int) {
		joined <- ahead
	}))
	for range 4 {
		next(t, joined)
	}
	must(t, held.Release(testContext(t)))
	next(t, terms).end <- nil
	must(t, next(t, done))
}

func TestAnElectorOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	through := startProxy(t, "") // which ends all connections, as there is no server
	client, log := newJournal(t, through.address)
	terms, done := lead(testContext(t), client, "scheduler")
	eventually(t, "the campaign fails", func() bool { return len(log.with("the campaign for scheduler fails")) > 0 })
	through.forwardTo(fenceposttest.Start(t).Address)
	next(t, terms).end <- nil
	must(t, next(t, done))
	must(t, client.Close(testContext(t)))
	told := log.with("the campaign for scheduler fails, and goes on: no server could be reached: ")
	if len(told) != 1 || !strings.Contains(told[0], "level=WARN") || !strings.Contains(told[0], "lock=scheduler") {
		t.Fatalf("got %q", log.lines)
	}
}

func TestALeaderMayResignOrPanic(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	failed := errors.New("the work failed")
	err := client.Lead(testContext(t), "scheduler", func(_ context.Context, lock *fencepost.Lock) error {
		must(t, lock.Release(testContext(t)))
		return failed
	})
	if !errors.Is(err, failed) || errors.Is(err, fencepost.ErrReleased) {
		t.Fatalf("got %v", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_ = client.Lead(testContext(t), "scheduler", func(context.Context, *fencepost.Lock) error { panic("oops") })
	}()
	if last := acquire(t, other, "scheduler"); last.PreviousEnd() != fencepost.EndReleased {
		t.Fatalf("the previous end is %v", last.PreviousEnd())
	}
}

func TestCloseEndsElections(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	terms, led := lead(testContext(t), client, "scheduler")
	first := next(t, terms)
	_, waited := lead(testContext(t), other, "scheduler")
	waitsFor(t, client, "scheduler", 1)
	must(t, other.Close(testContext(t)))
	must(t, client.Close(testContext(t)))
	within(t, first.ctx.Done())
	failed := errors.New("the work failed")
	first.end <- failed
	if err := next(t, led); !errors.Is(err, fencepost.ErrClosed) || !errors.Is(err, failed) {
		t.Fatalf("got %v", err)
	}
	if err := next(t, waited); !errors.Is(err, fencepost.ErrClosed) {
		t.Fatalf("got %v", err)
	}
}
