//go:build unix

package fencepost_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// waiting waits until so many requests wait for a lock.
func waiting(t *testing.T, client *fencepost.Client, name string, count int) {
	t.Helper()
	eventually(t, fmt.Sprint(count, " wait"), func() bool {
		info, err := client.Get(testContext(t), name)
		must(t, err)
		return info.Waiters == count
	})
}

// queueUp waits for a lock, and tells that it has had it.
func queueUp(
	t *testing.T, client *fencepost.Client, served chan<- int, number int, options ...fencepost.AcquireOption,
) (ended <-chan error) {
	t.Helper()
	ctx, result := testContext(t), make(chan error, 1)
	go func() {
		result <- client.Do(ctx, "orders/42", func(context.Context, uint64) error {
			served <- number
			return nil
		}, append(options, fencepost.WithWaitUntilDone())...)
	}()
	return result
}

func TestWaitersAreServedInOrder(t *testing.T) {
	client := newClient(t, fenceposttest.Start(t).Address)
	lock := acquire(t, client, "orders/42")
	served := make(chan int, 3)
	var ended [3]<-chan error
	for i := range ended {
		ended[i] = queueUp(t, client, served, i)
		waiting(t, client, "orders/42", i+1)
	}
	must(t, lock.Release(testContext(t)))
	for i := range ended {
		must(t, <-ended[i])
		if got := <-served; got != i {
			t.Fatalf("served %d, not %d", got, i)
		}
	}
}

// All connections end while two requests wait. Both come again, and keep their places.
func TestAWaitOutlivesItsConnection(t *testing.T) {
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	lock := acquire(t, client, "orders/42")
	served, positions := make(chan int, 2), make(chan int, 10)
	first := queueUp(t, other, served, 1, fencepost.WithOnQueuePosition(func(ahead int) { positions <- ahead }))
	waiting(t, client, "orders/42", 1)
	second := queueUp(t, client, served, 2)
	waiting(t, client, "orders/42", 2)
	must(t, server.DropReply())
	must(t, acquire(t, other, "other").Release(testContext(t)))
	for range 2 {
		if ahead := <-positions; ahead != 0 {
			t.Fatalf("%d are ahead of the first", ahead)
		}
	}
	must(t, lock.Release(testContext(t)))
	must(t, <-first)
	must(t, <-second)
	if one, two := <-served, <-served; one != 1 || two != 2 {
		t.Fatalf("served %d, then %d", one, two)
	}
}

func TestTheTokenIsAtLeastWhatIsAskedFor(t *testing.T) {
	client := newClient(t, fenceposttest.Start(t).Address)
	// Servers count from their time in microseconds.
	least := uint64(time.Now().Add(time.Hour).UnixMicro())
	if lock := acquire(t, client, "orders/42", fencepost.WithMinToken(least)); lock.Token() != least {
		t.Fatalf("the token is %d", lock.Token())
	}
}
