//go:build unix

package fencepost_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// The code of the README is in functions of these files, word by word, which tests run.
var readmeTests = []string{"readme_test.go", "guard/readme_test.go"}

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

//nolint:errcheck,staticcheck,ineffassign // word by word
func readmeDo(ctx context.Context, ship func(context.Context, uint64) error) error {
	client, err := fencepost.New(fencepost.Config{}) // FENCEPOST_SERVER, or 127.0.0.1:7420
	defer client.Close(context.Background())
	err = client.Do(ctx, "orders/42", func(ctx context.Context, token uint64) error {
		return ship(ctx, token) // no other process is in here; ctx ends if the lock is lost
	})
	return err
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

func TestTheCodeOfTheReadmeWorks(t *testing.T) {
	server := fenceposttest.Start(t)
	t.Setenv("FENCEPOST_SERVER", server.Address)
	ctx := testContext(t)
	var tokens []uint64
	write := func(ctx context.Context, token uint64) error {
		tokens = append(tokens, token)
		return ctx.Err()
	}
	must(t, readmeDo(ctx, write))
	client := newClient(t)
	must(t, readmeHold(ctx, client, readmeStore{write}, "paid"))
	next := acquire(t, client, "orders/42")
	if len(tokens) != 2 || tokens[0] >= tokens[1] || next.PreviousEnd() != fencepost.EndReleased {
		t.Fatalf("tokens %v, the previous end is %v", tokens, next.PreviousEnd())
	}
}
