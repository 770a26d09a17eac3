//go:build unix

package fencepost_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// The code of the README is in functions of these files, word by word, which tests run.
var readmeTests = []string{
	"readme_test.go", "guard/readme_test.go", "examples/worker/main.go", "fenceposttest/example_test.go",
}

func lines(text string) []string {
	found := strings.Split(strings.TrimSpace(text), "\n")
	for i := range found {
		found[i] = strings.TrimSpace(found[i])
	}
	return found
}

func TestTheCodeOfTheReadmeIsTested(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	must(t, err)
	var tested []string
	for _, file := range readmeTests {
		text, err := os.ReadFile(file)
		must(t, err)
		tested = append(tested, lines(string(text))...)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) < 3 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for _, block := range blocks {
		want := lines(block[1])
		isHere := func(start int) bool {
			return start+len(want) <= len(tested) && slices.Equal(tested[start:start+len(want)], want)
		}
		found := false
		for start := range tested {
			found = found || isHere(start)
		}
		if !found {
			t.Errorf("in none of %v:\n%s", readmeTests, block[1])
		}
	}
}

type readmeStore struct {
	write func(context.Context, uint64) error
}

func (s readmeStore) Write(ctx context.Context, token uint64, _ string) error {
	return s.write(ctx, token)
}

//nolint:errcheck // word by word
func readmeHold(ctx context.Context, client *fencepost.Client, store readmeStore, order string) error {
	lock, err := client.Acquire(ctx, "orders/42", fencepost.WithTTL(10*time.Second), fencepost.WithWait(time.Minute))
	if err != nil {
		return err
	}
	defer lock.Release(ctx)              // is sent even if ctx is done
	ctx, cancel := lock.WithContext(ctx) // ends when ctx ends, or when the lock is lost
	defer cancel()
	return store.Write(ctx, lock.Token(), order)
}

// Move writes to two accounts, each under the token of its lock.
func (s readmeStore) Move(ctx context.Context, from, to uint64) error {
	return errors.Join(s.write(ctx, from), s.write(ctx, to))
}

//nolint:errcheck // word by word
func readmeMove(ctx context.Context, client *fencepost.Client, store readmeStore) error {
	locks, err := client.AcquireAll(ctx, []string{"accounts/7", "accounts/9"}, fencepost.WithWait(time.Minute))
	if err != nil {
		return err
	}
	defer locks.Release(ctx)
	ctx, cancel := locks.WithContext(ctx) // ends when ctx ends, or when one of the locks is lost
	defer cancel()
	return store.Move(ctx, locks.Token("accounts/7"), locks.Token("accounts/9"))
}

// Schedule writes until its context is done.
func (s readmeStore) Schedule(ctx context.Context, token uint64) error {
	for ctx.Err() == nil {
		if err := s.write(ctx, token); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func readmeLead(ctx context.Context, client *fencepost.Client, store readmeStore) error {
	return client.Lead(ctx, "scheduler", func(ctx context.Context, lock *fencepost.Lock) error {
		return store.Schedule(ctx, lock.Token()) // returns when ctx is done: the lock is lost, or the process has to end
	})
}

// The whole program of the README, with its imports, as a process that is told to end.
func TestTheProgramOfTheReadmeReleasesItsLockOnSIGTERM(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	program := filepath.Join(t.TempDir(), "worker")
	if output, err := exec.Command("go", "build", "-o", program, "./examples/worker").CombinedOutput(); err != nil {
		t.Fatalf("%s", output)
	}
	worker := exec.Command(program)
	worker.Env = append(os.Environ(), "FENCEPOST_SERVER="+server.Address)
	must(t, worker.Start())
	t.Cleanup(func() { _ = worker.Process.Kill() })
	client := newClient(t, server.Address)
	eventually(t, "it has the lock", func() bool {
		info, err := client.Get(testContext(t), "orders/42")
		must(t, err)
		return len(info.Holders) == 1
	})
	must(t, worker.Process.Signal(syscall.SIGTERM))
	must(t, worker.Wait())
	next, err := client.TryAcquire(testContext(t), "orders/42")
	must(t, err)
	if next.PreviousEnd() != fencepost.EndReleased {
		t.Fatalf("the previous end is %v", next.PreviousEnd())
	}
}

func TestTheCodeOfTheReadmeWorks(t *testing.T) {
	server := fenceposttest.Start(t)
	t.Setenv("FENCEPOST_SERVER", server.Address)
	ctx := testContext(t)
	var tokens []uint64
	write := func(ctx context.Context, token uint64) error {
		tokens = append(tokens, token)
		return ctx.Err()
	}
	client := newClient(t)
	must(t, readmeHold(ctx, client, readmeStore{write}, "paid"))
	next := acquire(t, client, "orders/42")
	must(t, readmeMove(ctx, client, readmeStore{write}))
	if len(tokens) != 3 || acquire(t, client, "accounts/9").PreviousEnd() != fencepost.EndReleased {
		t.Fatalf("tokens %v", tokens)
	}
	tokens = tokens[:1]
	if len(tokens) != 1 || tokens[0] >= next.Token() || next.PreviousEnd() != fencepost.EndReleased {
		t.Fatalf("tokens %v, the previous end is %v", tokens, next.PreviousEnd())
	}
}

func TestTheLeaderOfTheReadmeIsElectedAgain(t *testing.T) {
	server := fenceposttest.Start(t)
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	var terms []uint64
	write := func(ctx context.Context, token uint64) error {
		if !slices.Contains(terms, token) {
			terms = append(terms, token)
			if len(terms) == 2 {
				cancel()
				return nil
			}
			must(t, server.Lose("scheduler"))
		}
		return ctx.Err()
	}
	err := readmeLead(ctx, newClient(t, server.Address), readmeStore{write})
	if !errors.Is(err, context.Canceled) || len(terms) != 2 || terms[0] >= terms[1] {
		t.Fatalf("got %v after the terms %v", err, terms)
	}
}
