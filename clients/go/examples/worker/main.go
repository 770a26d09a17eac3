// A worker that ships orders, in one process at a time, until SIGTERM or Ctrl-C ends it.
package main

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	fencepost "github.com/fencepost/fencepost-go"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	client, err := fencepost.New(fencepost.Config{}) // FENCEPOST_SERVER, or 127.0.0.1:7420
	if err != nil {
		return err
	}
	defer func() { _ = client.Close(context.Background()) }() // releases what is held
	return client.Do(ctx, "orders/42", ship, fencepost.WithWaitUntilDone())
}

// ship has the lock: no other process is in here. Send the token with every write. When ctx is done, return: the lock is
// lost, or the process has to end.
func ship(ctx context.Context, token uint64) error {
	log.Printf("shipping with token %d", token)
	<-ctx.Done()
	return context.Cause(ctx)
}
