//go:build unix

package fencepost_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// exampleClient is a client of a server that the example stops.
func exampleClient() (client *fencepost.Client, stop func()) {
	server, err := fenceposttest.Launch()
	if err != nil {
		log.Fatal(err)
	}
	client, err = fencepost.New(fencepost.Config{Servers: []string{server.Address}, Holder: "example"})
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		_ = client.Close(context.Background())
		server.Stop()
	}
}

func ExampleClient_Do() {
	client, stop := exampleClient()
	defer stop()
	err := client.Do(context.Background(), "orders/42", func(ctx context.Context, token uint64) error {
		// Send the token with every write. The context ends if the lock is lost.
		fmt.Println("shipped:", token > 0, ctx.Err())
		return nil
	})
	fmt.Println(err)
	// Output:
	// shipped: true <nil>
	// <nil>
}

func ExampleClient_Acquire() {
	client, stop := exampleClient()
	defer stop()
	ctx := context.Background()
	lock, err := client.Acquire(ctx, "orders/42", fencepost.WithTTL(10*time.Second), fencepost.WithWait(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lock.Valid(), lock.Remaining() > 5*time.Second)
	fmt.Println(lock.Release(ctx), lock.Valid())
	// Output:
	// true true
	// <nil> false
}

func ExampleClient_TryAcquire() {
	client, stop := exampleClient()
	defer stop()
	ctx := context.Background()
	lock, err := client.TryAcquire(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.TryAcquire(ctx, "orders/42")
	var contended *fencepost.ContendedError
	if errors.As(err, &contended) {
		fmt.Println("held by", contended.Holders[0].Holder)
	}
	fmt.Println(lock.Release(ctx))
	// Output:
	// held by example
	// <nil>
}

func ExampleClient_Lead() {
	client, stop := exampleClient()
	defer stop()
	err := client.Lead(context.Background(), "scheduler", func(ctx context.Context, lock *fencepost.Lock) error {
		// Send the token with every write. The context ends if the lock is lost: Lead campaigns again then.
		fmt.Println("elected:", lock.Token() > 0, ctx.Err())
		return nil // resigns
	})
	fmt.Println(err)
	// Output:
	// elected: true <nil>
	// <nil>
}
