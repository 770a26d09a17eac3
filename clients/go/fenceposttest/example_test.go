package fenceposttest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

func Example() {
	server, err := fenceposttest.Launch() // Start(t) in a test
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	client, err := fencepost.New(fencepost.Config{Servers: []string{server.Address}})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer func() { _ = client.Close(ctx) }()
	lock, err := client.Acquire(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Lose("orders/42"); err != nil {
		log.Fatal(err)
	}
	<-lock.Context().Done()
	fmt.Println(errors.Is(context.Cause(lock.Context()), fencepost.ErrLost))
	// Output: true
}

// ship is the code under test of the README.
func ship(ctx context.Context, lock *fencepost.Lock) error {
	defer func() { _ = lock.Release(ctx) }()
	ctx, cancel := lock.WithContext(ctx)
	defer cancel()
	<-ctx.Done()
	return context.Cause(ctx)
}

// The code of the README, word by word.

func TestShippingStopsWhenTheLockIsLost(t *testing.T) {
	server := fenceposttest.Start(t)
	client, err := fencepost.New(fencepost.Config{Servers: []string{server.Address}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close(t.Context()) }()
	lock, err := client.Acquire(t.Context(), "orders/42")
	if err != nil {
		t.Fatal(err)
	}
	shipped := make(chan error, 1)
	go func() { shipped <- ship(t.Context(), lock) }()
	if err := server.Lose("orders/42"); err != nil {
		t.Fatal(err)
	}
	if err := <-shipped; !errors.Is(err, fencepost.ErrLost) {
		t.Fatalf("got %v", err)
	}
}

func TestShippingReleasesALockThatItLost(t *testing.T) {
	fake := fenceposttest.NewFakeLock("orders/42", 7)
	fake.Lose()
	if err := ship(t.Context(), fake.Lock); !errors.Is(err, fencepost.ErrLost) || !fake.Released() {
		t.Fatalf("got %v, released: %v", err, fake.Released())
	}
}
