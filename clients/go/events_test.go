//go:build unix

package fencepost_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	fencepost "github.com/fencepost/fencepost-go"
	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/fenceposttest"
	"github.com/fencepost/fencepost-go/internal/facts"
)

func TestRenewalsThatFailAreLoggedOnce(t *testing.T) {
	t.Parallel()
	redis, process := startRedis(t)
	server := fenceposttest.Start(t, "--store", redis)
	client, log := newJournal(t, server.Address)
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(6*time.Second))
	must(t, process.Signal(syscall.SIGSTOP))
	eventually(t, "renewals fail", func() bool { return len(log.with("renewals of orders/42 fail")) > 0 })
	must(t, process.Signal(syscall.SIGCONT))
	eventually(t, "they work again", func() bool { return len(log.with("orders/42 is renewed again")) > 0 })
	must(t, lock.Release(testContext(t)))
	fails, again := log.with("renewals of orders/42 fail"), log.with("is renewed again")
	// The server tells of its store, unless the client's own clock comes first.
	causes := regexp.MustCompile(`another [0-9.ms]+: (the store of \S+ does not answer|no renewal has arrived in time)`)
	if len(fails) != 1 || !strings.Contains(fails[0], "level=WARN") || !causes.MatchString(fails[0]) ||
		!strings.Contains(fails[0], fmt.Sprint("lock=orders/42 token=", lock.Token())) {
		t.Errorf("got %q", fails)
	}
	if len(again) != 1 || !strings.Contains(again[0], "level=INFO") {
		t.Errorf("got %q", again)
	}
}

// A server is away for long. Each thing is said once, whatever the rate of repetitions.
func TestAServerThatIsAwayAndALossAreLoggedOnce(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, log := newJournal(t, server.Address)
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(2*time.Second))
	server.Kill()
	loss := lost(t, lock)
	_, err := client.Acquire(testContext(t), "orders/43")
	if !errors.Is(err, fencepost.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	must(t, client.Close(testContext(t)))
	want := fmt.Sprintf("orders/42 (token %d) is lost: %s", lock.Token(), facts.LostSilence)
	if got := log.with("is lost"); len(got) != 1 || !strings.Contains(got[0], want) ||
		!strings.Contains(got[0], "level=WARN") || loss.Error() != "fencepost: "+want {
		t.Errorf("got %q, %v", got, loss)
	}
	moves := log.with("server " + server.Address + " failed (")
	if len(moves) == 0 || len(moves) > 2 || !strings.Contains(moves[0], "level=INFO") ||
		!strings.Contains(moves[0], "), trying "+server.Address) {
		t.Errorf("got %q", moves)
	}
}

func TestAReleaseThatGivesUpIsLogged(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, log := newJournal(t, server.Address)
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(time.Second))
	server.Kill()
	_ = lock.Release(testContext(t))
	eventually(t, "it gives up", func() bool { return len(log.with("could not be released in the background")) > 0 })
	got := log.with("could not be released in the background")
	if len(got) != 1 || !strings.Contains(got[0], "orders/42 could not be released in the background: ") ||
		!strings.Contains(got[0], "; it is free after its TTL") || !strings.Contains(got[0], "level=WARN") {
		t.Fatalf("got %q", got)
	}
}

// Nothing is refused: the store of the second server may have been made anew.
func TestAServerWithAnotherStoreIsLoggedOnce(t *testing.T) {
	t.Parallel()
	first, second := fenceposttest.Start(t), fenceposttest.Start(t)
	through := startProxy(t, second.Address)
	client, log := newJournal(t, first.Address, through.address)
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(2*time.Second))
	first.Kill()
	_ = lost(t, lock)
	lock = acquire(t, client, "orders/42")
	through.disconnect() // The next session is with the same server, which is no news.
	must(t, acquire(t, client, "orders/43").Release(testContext(t)))
	must(t, lock.Release(testContext(t)))
	must(t, client.Close(testContext(t)))
	want := fmt.Sprintf("level=WARN msg=\"%s does not have the store that %s had: unless that store was made anew, start "+
		"both servers with the same --store, because a lock of one excludes nobody on the other\" server=%s other=%s\n",
		through.address, first.Address, through.address, first.Address)
	if got := log.with("does not have the store"); len(got) != 1 || !strings.HasSuffix(got[0], want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestServersThatShareAStoreAreNotLogged(t *testing.T) {
	t.Parallel()
	redis, _ := startRedis(t)
	first, second := fenceposttest.Start(t, "--store", redis), fenceposttest.Start(t, "--store", redis)
	// A server tells the id of a Redis once it has connected to it.
	id := regexp.MustCompile(`store redis [0-9a-f]{32}`)
	eventually(t, "both servers tell the id of their store", func() bool {
		one, _ := first.Command("status")
		other, _ := second.Command("status")
		return id.MatchString(one) && id.FindString(one) == id.FindString(other)
	})
	client, log := newJournal(t, first.Address, second.Address)
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(2*time.Second))
	first.Kill()
	outlive(t, 2*time.Second, lock)
	must(t, lock.Release(testContext(t)))
	must(t, client.Close(testContext(t)))
	if got := log.with("does not have the store"); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}

// A badLogger panics, blocks, and calls the client that calls it.
type badLogger struct {
	slog.Handler
	client atomic.Pointer[fencepost.Client]
	called chan struct{}
}

func (l *badLogger) Handle(ctx context.Context, _ slog.Record) error {
	_, _ = l.client.Load().Get(ctx, "orders/42")
	select {
	case l.called <- struct{}{}:
	default:
	}
	panic("oops")
}

func TestALoggerThatPanicsCostsNoLock(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	bad := &badLogger{Handler: slog.DiscardHandler, called: make(chan struct{}, 1)}
	enabled := &enabledLogger{bad}
	client, err := fencepost.New(fencepost.Config{Servers: []string{server.Address}, Logger: slog.New(enabled)})
	must(t, err)
	defer func() { must(t, client.Close(testContext(t))) }()
	bad.client.Store(client)
	const ttl = 2 * time.Second
	lock, other := acquire(t, client, "orders/42", fencepost.WithTTL(ttl)), acquire(t, client, "orders/43")
	for range 2 {
		must(t, server.Lose("orders/43"))
		_ = lost(t, other)
		within(t, bad.called)
		other = acquire(t, client, "orders/43")
	}
	outlive(t, ttl, lock)
	must(t, lock.Release(testContext(t)))
}

type enabledLogger struct{ slog.Handler }

func (enabledLogger) Enabled(context.Context, slog.Level) bool { return true }

// Whatever is printed of a lock is readable, and is no credential.
func TestALockIsPrintedWithoutItsLeaseID(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	granted := make(chan string, 1)
	front := startFront(t, server.Address, func(response *pb.SessionResponse) *pb.SessionResponse {
		if isGrant(response) {
			granted <- response.GetAcquire().GetLease().GetLeaseId()
		}
		return response
	})
	client := newClient(t, front.address)
	lock := acquire(t, client, "orders/42")
	token := lock.Token()
	for printed, want := range map[string]string{
		fmt.Sprint(lock):        fmt.Sprintf("orders/42 (token %d)", token),
		fmt.Sprintf("%v", lock): fmt.Sprintf("orders/42 (token %d)", token),
		fmt.Sprintf("%#v", lock): fmt.Sprintf(`fencepost.Lock{Name: "orders/42", Token: %d, GrantID: %q, Valid: true}`,
			token, lock.GrantID()),
		slog.Any("lock", lock).Value.Resolve().String(): fmt.Sprintf("[name=orders/42 token=%d]", token),
		fmt.Sprint(client):         "fencepost.Client(" + front.address + ")",
		fmt.Sprintf("%#v", client): "fencepost.Client(" + front.address + ")",
	} {
		if printed != want {
			t.Errorf("got %s, want %s", printed, want)
		}
	}
	leaseID := <-granted
	all := fmt.Sprintf("%+v %#v %s %+v", lock, lock, lock, *lock) //nolint:govet // a copy is printed
	if leaseID == "" || strings.Contains(all, leaseID) {
		t.Errorf("lease id %q in %s", leaseID, all)
	}
	must(t, lock.Release(testContext(t)))
}
