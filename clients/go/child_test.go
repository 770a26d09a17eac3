//go:build unix

package fencepost_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	fencepost "github.com/fencepost/fencepost-go"
)

// childRoles are what this program does as another process.
var childRoles = map[string]func([]string){"hold": holdLock, "leave": leaveWithLock, "wait": waitForLock}

func TestMain(m *testing.M) {
	if role := os.Getenv(childVariable); role != "" {
		arguments := strings.Split(role, "\n")
		childRoles[arguments[0]](arguments[1:])
		return
	}
	// Tests look at what their own loggers are told.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

func childClient(server string) *fencepost.Client {
	client, err := fencepost.New(fencepost.Config{Servers: []string{server}, Holder: "child"})
	if err != nil {
		panic(err)
	}
	return client
}

// holdLock holds a lock, and says for each line of input whether it is valid, and what its context says.
func holdLock(arguments []string) {
	lock, err := childClient(arguments[0]).Acquire(context.Background(), arguments[1], fencepost.WithTTL(time.Second))
	if err != nil {
		panic(err)
	}
	fmt.Println(lock.Token())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		// Valid is asked first: nothing else may have told it.
		valid := lock.Valid()
		fmt.Println(valid, lock.Context().Err() == nil, lock.Err())
	}
}

// leaveWithLock ends while it holds a lock, without Close.
func leaveWithLock(arguments []string) {
	lock, err := childClient(arguments[0]).Acquire(context.Background(), arguments[1], fencepost.WithTTL(time.Second))
	if err != nil {
		panic(err)
	}
	fmt.Println(lock.Token())
}

// waitForLock waits for a lock until it is interrupted.
func waitForLock(arguments []string) {
	_, err := childClient(arguments[0]).Acquire(context.Background(), arguments[1], fencepost.WithWaitUntilDone(),
		fencepost.WithOnQueuePosition(func(ahead int) { fmt.Println(ahead) }))
	fmt.Println(err)
}
