//go:build unix

package fencepost_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencepost "github.com/fencepost/fencepost-go"
	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// upgrade upgrades a lock that nobody else shares, and checks its new token.
func upgrade(t *testing.T, lock *fencepost.Lock) {
	t.Helper()
	before := lock.Token()
	upgraded, err := lock.TryUpgrade(testContext(t))
	must(t, err)
	if !upgraded || lock.Mode() != fencepost.ModeExclusive || lock.Token() <= before {
		t.Fatalf("upgraded %v: %v, token %d after %d", upgraded, lock.Mode(), lock.Token(), before)
	}
}

func pass(response *pb.SessionResponse) *pb.SessionResponse { return response }

func TestADowngradeLetsReadersInAndNoWriter(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	lock := acquire(t, client, "orders/42")
	token := lock.Token()
	reading := acquiring(t, other, fencepost.WithShared())
	waiting(t, client, "orders/42", 1)
	writing := acquiring(t, other)
	waiting(t, client, "orders/42", 2)
	if lock.Mode() != fencepost.ModeExclusive {
		t.Fatalf("held as %v", lock.Mode())
	}
	for range 2 { // the second one changes nothing
		must(t, lock.Downgrade(testContext(t)))
		if lock.Token() != token || lock.Mode() != fencepost.ModeShared || !lock.Valid() {
			t.Fatalf("token %d was %d, held as %v", lock.Token(), token, lock.Mode())
		}
	}
	reader := reading()
	info, err := client.Get(testContext(t), "orders/42")
	must(t, err)
	areReaders(t, info.Holders, lock, reader)
	if info.Waiters != 1 || reader.Mode() != fencepost.ModeShared {
		t.Fatalf("%d wait, the reader holds it as %v", info.Waiters, reader.Mode())
	}
	must(t, errors.Join(lock.Release(testContext(t)), reader.Release(testContext(t))))
	if writer := writing(); writer.Mode() != fencepost.ModeExclusive {
		t.Fatalf("held as %v", writer.Mode())
	}
}

func TestOnlyTheLastReaderBecomesAWriter(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	ctx := testContext(t)
	lock := acquire(t, client, "orders/42", fencepost.WithShared())
	second := acquire(t, other, "orders/42", fencepost.WithShared())
	token := lock.Token()
	upgraded, err := lock.TryUpgrade(ctx)
	must(t, err)
	if upgraded || lock.Mode() != fencepost.ModeShared || lock.Token() != token || !lock.Valid() {
		t.Fatalf("upgraded %v: %v, token %d was %d", upgraded, lock.Mode(), lock.Token(), token)
	}
	must(t, second.Release(ctx))
	watch, err := other.Watch(ctx, "orders/42")
	must(t, err)
	defer watch.Close()
	upgrade(t, lock)
	event, err := watch.Next()
	must(t, err)
	if event.Kind != fencepost.EventChanged || event.Mode != lock.Mode() || event.Token != lock.Token() {
		t.Fatalf("got %+v", event)
	}
	check, err := other.CheckToken(ctx, "orders/42", lock.Token())
	must(t, err)
	if check.Status != fencepost.TokenCurrent || lock.Token() <= second.Token() {
		t.Fatalf("token %d after %d is %v", lock.Token(), second.Token(), check.Status)
	}
	_, err = other.TryAcquire(ctx, "orders/42", fencepost.WithShared())
	if held := as[*fencepost.ContendedError](t, err).Holders; held[0].Token != lock.Token() || held[0].Shared {
		t.Fatalf("held by %+v", held)
	}
	must(t, server.Lose("orders/42"))
	if loss := lost(t, lock); loss.Token != lock.Token() {
		t.Fatalf("token %d was lost, not %d", loss.Token, lock.Token())
	}
}

func TestALockThatHasEndedIsNotConverted(t *testing.T) {
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
	client := newClient(t, front.address)
	lock, released := acquire(t, client, "orders/42"), acquire(t, client, "orders/43")
	must(t, server.Lose("orders/42"))
	// Only the answer tells of the loss.
	for range 2 {
		_, err := lock.TryUpgrade(testContext(t))
		if loss := as[*fencepost.LostError](t, err); loss.Reason != fencepost.LossRevoked || !errors.Is(lock.Err(), loss) {
			t.Fatalf("got %v, and then %v", err, lock.Err())
		}
	}
	must(t, released.Release(testContext(t)))
	if err := released.Downgrade(testContext(t)); !errors.Is(err, fencepost.ErrReleased) {
		t.Fatalf("got %v", err)
	}
	if calls != 1 {
		t.Fatalf("%d calls", calls)
	}
}

func TestALostAnswerToAConversionIsAskedForAgain(t *testing.T) {
	t.Parallel()
	front := startFront(t, fenceposttest.Start(t).Address, pass)
	var fails sync.Once
	front.changed = func() (err error) {
		fails.Do(func() { err = status.Error(codes.Unavailable, "lost") })
		return err
	}
	upgrade(t, acquire(t, newClient(t, front.address), "orders/42", fencepost.WithShared()))
}

func TestAConversionThatIsGivenUpIsUnknown(t *testing.T) {
	t.Parallel()
	front := startFront(t, fenceposttest.Start(t).Address, pass)
	ctx, cancel := context.WithCancel(testContext(t))
	lock := acquire(t, newClient(t, front.address), "orders/42", fencepost.WithShared())
	front.changed = func() error {
		cancel()
		return status.Error(codes.Unavailable, "lost")
	}
	_, err := lock.TryUpgrade(ctx)
	_ = as[*fencepost.OutcomeUnknownError](t, err)
	if !errors.Is(err, context.Canceled) || lock.Mode() != fencepost.ModeShared {
		t.Fatalf("got %v, held as %v", err, lock.Mode())
	}
	front.changed = nil
	refused := as[*fencepost.RefusedError](t, lock.Downgrade(testContext(t)))
	if refused.Reason != "TOKEN_OUTDATED" {
		t.Fatal(refused)
	}
	upgrade(t, lock)
}

func TestConversionsOfALockTakeTurns(t *testing.T) {
	t.Parallel()
	front := startFront(t, fenceposttest.Start(t).Address, pass)
	lock := acquire(t, newClient(t, front.address), "orders/42", fencepost.WithShared())
	asked, answer := make(chan struct{}), make(chan struct{})
	front.changed = func() error {
		asked <- struct{}{}
		<-answer
		return nil
	}
	first := make(chan error, 1)
	go func() {
		_, err := lock.TryUpgrade(testContext(t))
		first <- err
	}()
	<-asked
	done, cancel := context.WithCancel(testContext(t))
	cancel()
	if err := lock.Downgrade(done); !errors.Is(err, context.Canceled) || errors.Is(err, fencepost.ErrOutcomeUnknown) {
		t.Fatalf("got %v", err)
	}
	close(answer)
	must(t, <-first)
	if lock.Mode() != fencepost.ModeExclusive {
		t.Fatalf("held as %v", lock.Mode())
	}
}

func TestWhatIsNotConvertible(t *testing.T) {
	t.Parallel()
	client := newClient(t, fenceposttest.Start(t).Address)
	lock := acquire(t, client, "orders/42", fencepost.WithSemaphore(2))
	isRefused(t, lock.Downgrade(testContext(t)), "NOT_CONVERTIBLE")
	if lock.Mode() != fencepost.ModeSemaphore || !lock.Valid() {
		t.Fatalf("held as %v, valid %v", lock.Mode(), lock.Valid())
	}
}

func TestAConversionWithoutAServerHasDoneNothing(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	through := startProxy(t, server.Address)
	lock := acquire(t, newClient(t, through.address), "orders/42")
	through.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	err := lock.Downgrade(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fencepost.ErrOutcomeUnknown) {
		t.Fatalf("got %v", err)
	}
	if lock.Mode() != fencepost.ModeExclusive || !lock.Valid() {
		t.Fatalf("held as %v, valid %v", lock.Mode(), lock.Valid())
	}
	_ = startProxyAt(t, through.address, server.Address)
	must(t, lock.Downgrade(testContext(t)))
	must(t, lock.Release(testContext(t)))
}
