//go:build unix

package fencepost_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// startGuarded starts a server with two tokens: "first", until the time expires, and "second". They are of the
// identities worker/first and worker/second.
func startGuarded(t *testing.T, expires time.Time) *fenceposttest.Server {
	t.Helper()
	access := "mode = \"enforce\"\n[[rule]]\nwho = [\"worker/*\"]\nmay = [\"acquire\", \"read\"]\nlocks = [\"\"]\n"
	for token, until := range map[string]time.Time{"first": expires, "second": expires.Add(time.Hour)} {
		access += fmt.Sprintf("[[token]]\nname = \"worker/%s\"\nsha256 = \"%x\"\nexpires = %s\n", token,
			sha256.Sum256([]byte(token)), until.UTC().Format(time.RFC3339Nano))
	}
	file := filepath.Join(t.TempDir(), "access.toml")
	must(t, os.WriteFile(file, []byte(access), 0o600))
	return fenceposttest.Start(t, "--access", file)
}

// replaceToken puts a token into a file, in one step.
func replaceToken(t *testing.T, file, token string) {
	t.Helper()
	must(t, os.WriteFile(file+".new", []byte(token), 0o600))
	must(t, os.Rename(file+".new", file))
}

func wantUnauthenticated(t *testing.T, err error, reason, text string) {
	t.Helper()
	refused := as[*fencepost.RefusedError](t, err)
	if refused.Code != codes.Unauthenticated || refused.Reason != reason || !strings.Contains(refused.Message, text) {
		t.Fatalf("got %v", err)
	}
}

func TestTheTokenIsReadFromAFileForEachCall(t *testing.T) {
	server := startGuarded(t, time.Now().Add(time.Hour))
	file, ctx := filepath.Join(t.TempDir(), "token"), testContext(t)
	t.Setenv("FENCEPOST_CREDENTIALS", file)
	client := newClient(t, server.Address)
	_, err := client.Acquire(ctx, "orders/42")
	wantUnauthenticated(t, err, "", "no bearer token: open "+file)
	replaceToken(t, file, "first\n")
	lock := acquire(t, client, "orders/42")
	info, err := client.Get(ctx, "orders/42")
	must(t, err)
	if info.Holders[0].Identity != "worker/first" {
		t.Fatalf("got %+v", info.Holders)
	}
	replaceToken(t, file, "wrong")
	_, err = client.Get(ctx, "orders/42")
	wantUnauthenticated(t, err, "CREDENTIALS_INVALID", "")
	replaceToken(t, file, "two\nlines")
	_, err = client.Get(ctx, "orders/42")
	wantUnauthenticated(t, err, "", "the token has a line end")
	replaceToken(t, file, strings.Repeat("x", 64<<10+1))
	_, err = client.Get(ctx, "orders/42")
	wantUnauthenticated(t, err, "", "has more than 65536 bytes")

	// The setting is used in place of the variable.
	other := filepath.Join(t.TempDir(), "other")
	replaceToken(t, other, "second")
	second, err := fencepost.New(fencepost.Config{Servers: []string{server.Address}, CredentialsFile: other})
	must(t, err)
	t.Cleanup(func() { _ = second.Close(context.Background()) })
	next := acquiring(t, second)
	waiting(t, second, "orders/42", 1)
	for waiter, err := range second.Waiters(ctx, "orders/42") {
		must(t, err)
		if waiter.Identity != "worker/second" {
			t.Fatalf("got %+v", waiter)
		}
	}
	must(t, lock.Release(ctx))
	must(t, next().Release(ctx))
}

// The token expires, and so does the stream. Locks, watches and observations go on with the next token.
func TestATokenThatExpiresCostsNoLock(t *testing.T) {
	t.Parallel()
	server, log := startGuarded(t, time.Now().Add(2500*time.Millisecond)), &journal{}
	file := filepath.Join(t.TempDir(), "token")
	replaceToken(t, file, "first")
	client, err := fencepost.New(fencepost.Config{
		Servers: []string{server.Address}, CredentialsFile: file, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	must(t, err)
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	watch, err := client.Watch(testContext(t), "orders/")
	must(t, err)
	defer watch.Close()
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(10*time.Second)) // the stream ends within 3 s
	if event, err := watch.Next(); err != nil || event.Identity != "worker/first" {
		t.Fatalf("got %+v, %v", event, err)
	}
	next := states(t, client, "orders/42")
	_ = next()
	replaceToken(t, file, "second")
	if event, err := watch.Next(); err != nil || event.Kind != fencepost.EventMissed {
		t.Fatalf("got %+v, %v", event, err)
	}
	_ = next()
	eventually(t, "the session ends", func() bool { return len(log.with("CREDENTIALS_EXPIRED")) > 0 })
	// When it ends, and not how long it lasts: a renewal may have come just now, and no later one lasts longer.
	validUntil := func() time.Time { return time.Now().Add(lock.Remaining()) }
	before := validUntil()
	eventually(t, "the next session renews the lock", func() bool { return validUntil().After(before.Add(time.Second)) })
	must(t, lock.Release(testContext(t)))
}
