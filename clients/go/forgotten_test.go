//go:build unix

package fencepost_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// A journal keeps what a client logs.
type journal struct {
	mu    sync.Mutex
	lines []string
}

// newJournal returns a client that logs to a journal.
func newJournal(t *testing.T, servers ...string) (*fencepost.Client, *journal) {
	t.Helper()
	j := &journal{}
	client, err := fencepost.New(fencepost.Config{
		Servers: servers, Holder: t.Name(), Logger: slog.New(slog.NewTextHandler(j, nil)),
	})
	must(t, err)
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	return client, j
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, string(line))
	return len(line), nil
}

// with are the lines that contain a text.
func (j *journal) with(text string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []string
	for _, line := range j.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// forget acquires a lock, and leaves the result to nobody. What keep returns is all that is left of it.
func forget(
	t *testing.T, client *fencepost.Client, name string, keep func(*fencepost.Lock) any,
) (token uint64, kept any) {
	t.Helper()
	lock, err := client.TryAcquire(testContext(t), name)
	must(t, err)
	return lock.Token(), keep(lock)
}

func nothing(*fencepost.Lock) any { return nil }

// collected waits until the garbage collection has found a lock that was forgotten, and the lock is free again.
func collected(t *testing.T, client *fencepost.Client, name string) {
	t.Helper()
	eventually(t, name+" is released", func() bool {
		runtime.GC()
		info, err := client.Get(testContext(t), name)
		must(t, err)
		return len(info.Holders) == 0
	})
}

func TestAForgottenLockIsReleasedWithAWarning(t *testing.T) {
	t.Parallel()
	client, log := newJournal(t, fenceposttest.Start(t).Address)
	token, _ := forget(t, client, "orders/42", nothing)
	collected(t, client, "orders/42")
	next := acquire(t, client, "orders/42")
	if next.PreviousEnd() != fencepost.EndReleased {
		t.Fatalf("the previous end is %v", next.PreviousEnd())
	}
	want := fmt.Sprintf("orders/42 (token %d) was forgotten without a release, and is released", token)
	if got := log.with("forgotten"); len(got) != 1 || !strings.Contains(got[0], "level=WARN") ||
		!strings.Contains(got[0], want) || !strings.Contains(got[0], fmt.Sprint("lock=orders/42 token=", token)) {
		t.Fatalf("got %q", got)
	}
}

// A caller gives up its wait as programs do that have no context for it: the lock arrives, and nobody takes it.
func TestALockThatNobodyTakesIsReleased(t *testing.T) {
	t.Parallel()
	client, log := newJournal(t, fenceposttest.Start(t).Address)
	held := acquire(t, client, "orders/42")
	giveUp(t, client, held)
	collected(t, client, "orders/42")
	if got := log.with("forgotten"); len(got) != 1 {
		t.Fatalf("got %q", got)
	}
}

// giveUp waits for a lock, and goes away when it has arrived.
func giveUp(t *testing.T, client *fencepost.Client, held *fencepost.Lock) {
	t.Helper()
	arrived := make(chan *fencepost.Lock, 1)
	go func() {
		lock, err := client.Acquire(context.Background(), "orders/42", fencepost.WithWait(time.Minute))
		if err == nil {
			arrived <- lock
		}
	}()
	eventually(t, "it waits", func() bool {
		info, err := client.Get(testContext(t), "orders/42")
		must(t, err)
		return info.Waiters == 1
	})
	must(t, held.Release(testContext(t)))
	eventually(t, "it arrives", func() bool { return len(arrived) == 1 })
}

// Whatever is left of a lock is a use of it. Another lock that is forgotten later shows that it was looked for.
func TestALockInUseIsNotForgotten(t *testing.T) {
	t.Parallel()
	type key struct{}
	for name, keep := range map[string]func(*fencepost.Lock) any{
		"itself":      func(lock *fencepost.Lock) any { return lock },
		"its context": func(lock *fencepost.Lock) any { return lock.Context() },
		"a context derived from it": func(lock *fencepost.Lock) any {
			ctx, cancel := context.WithTimeout(context.WithValue(lock.Context(), key{}, 1), time.Hour)
			t.Cleanup(cancel)
			return ctx
		},
		"WithContext": func(lock *fencepost.Lock) any {
			ctx, cancel := lock.WithContext(context.Background())
			t.Cleanup(cancel)
			return ctx
		},
		"a value of WithContext": func(lock *fencepost.Lock) any {
			ctx, cancel := lock.WithContext(context.Background())
			t.Cleanup(cancel)
			return context.WithValue(ctx, key{}, 1)
		},
		"a function of its end": func(lock *fencepost.Lock) any {
			stop := context.AfterFunc(lock.Context(), func() {})
			t.Cleanup(func() { stop() })
			return nil
		},
		"its methods": func(lock *fencepost.Lock) any { return lock.Token },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, log := newJournal(t, fenceposttest.Start(t).Address)
			token, kept := forget(t, client, "kept", keep)
			for i := range 3 {
				other := fmt.Sprint("forgotten/", i)
				forget(t, client, other, nothing)
				collected(t, client, other)
			}
			info, err := client.Get(testContext(t), "kept")
			must(t, err)
			if len(info.Holders) != 1 || info.Holders[0].Token != token || len(log.with("lock=kept")) != 0 {
				t.Fatalf("got %+v, %q", info, log.lines)
			}
			runtime.KeepAlive(kept)
		})
	}
}

// Do and Release end a lock. The garbage collection has nothing to say about it.
func TestALockThatIsReleasedOrLostIsNotForgotten(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, log := newJournal(t, server.Address)
	must(t, client.Do(testContext(t), "done", func(context.Context, uint64) error {
		runtime.GC()
		return nil
	}))
	_, _ = forget(t, client, "released", func(lock *fencepost.Lock) any { return lock.Release(testContext(t)) })
	_, _ = forget(t, client, "lost", func(lock *fencepost.Lock) any {
		must(t, server.Lose("lost"))
		<-lock.Context().Done()
		return nil
	})
	forget(t, client, "forgotten", nothing)
	collected(t, client, "forgotten")
	if got := log.with("forgotten without"); len(got) != 1 || !strings.Contains(got[0], "lock=forgotten") {
		t.Fatalf("got %q", got)
	}
}
