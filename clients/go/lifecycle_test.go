//go:build unix

package fencepost_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencepost "github.com/fencepost/fencepost-go"
	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// The function of a caller panics while it waits. What recovers from the panic knows nothing of the acquire.
func TestAPanicOfACallerWithdrawsItsAcquire(t *testing.T) {
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	lock := acquire(t, client, "orders/42")
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_, _ = other.Acquire(context.Background(), "orders/42", fencepost.WithWaitUntilDone(),
			fencepost.WithOnQueuePosition(func(int) { panic("oops") }))
	}()
	eventually(t, "the queue is empty", func() bool {
		info, err := client.Get(testContext(t), "orders/42")
		must(t, err)
		return info.Waiters == 0
	})
	must(t, lock.Release(testContext(t)))
	acquire(t, client, "orders/42")
}

// A watch opens, and nobody answers: it must not hold back Close until its own timeout.
func TestCloseEndsAWatchThatOpens(t *testing.T) {
	server := fenceposttest.Start(t)
	client := newClient(t, server.Address)
	_, err := client.Get(testContext(t), "orders/42") // connects
	must(t, err)
	must(t, server.Pause())
	watching := make(chan error, 1)
	go func() {
		_, err := client.Watch(context.Background(), "")
		watching <- err
	}()
	select {
	case err := <-watching:
		t.Fatalf("got %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second) // an answer may take 5 s
	defer cancel()
	must(t, client.Close(ctx))
	if err := <-watching; !errors.Is(err, fencepost.ErrClosed) {
		t.Fatalf("got %v", err)
	}
}

func TestAnErrorOfAWatcherIsFinal(t *testing.T) {
	server := fenceposttest.Start(t)
	client := newClient(t, server.Address)
	watcher, err := client.Watch(testContext(t), "")
	must(t, err)
	must(t, client.Close(testContext(t)))
	for range 2 {
		if _, err := watcher.Next(); !errors.Is(err, fencepost.ErrClosed) {
			t.Fatalf("got %v", err)
		}
	}
	client = newClient(t, server.Address)
	watcher, err = client.Watch(testContext(t), "")
	must(t, err)
	watcher.Close()
	for range 2 {
		if _, err := watcher.Next(); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
	}
}

// A refusingWatch refuses the first watch after it has begun.
type refusingWatch struct {
	pb.UnimplementedLockServiceServer
	refused atomic.Bool
}

func (s *refusingWatch) Watch(_ *pb.WatchRequest, stream grpc.ServerStreamingServer[pb.WatchResponse]) error {
	if err := stream.Send(&pb.WatchResponse{Kind: pb.WatchResponse_KIND_STARTED}); err != nil {
		return err
	}
	if s.refused.CompareAndSwap(false, true) {
		return status.Error(codes.PermissionDenied, "no longer allowed")
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}

func TestARefusalOfAWatchIsFinal(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := grpc.NewServer()
	pb.RegisterLockServiceServer(server, &refusingWatch{})
	serving := make(chan error, 1)
	go func() { serving <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		must(t, <-serving)
	}()
	watcher, err := newClient(t, listener.Addr().String()).Watch(testContext(t), "")
	must(t, err)
	defer watcher.Close()
	for range 2 {
		_, err := watcher.Next()
		if refused := as[*fencepost.RefusedError](t, err); refused.Code != codes.PermissionDenied {
			t.Fatalf("got %v", err)
		}
	}
}

// Close gives up on a release without an answer. Its caller is not told that nothing happened.
func TestAReleaseThatCloseCutsOffHasAnUnknownOutcome(t *testing.T) {
	for range 20 {
		server := fenceposttest.Start(t)
		client := newClient(t, server.Address)
		lock := acquire(t, client, "orders/42")
		must(t, server.Pause())
		done, cancel := context.WithCancel(context.Background())
		cancel()
		if err := lock.Release(done); !errors.Is(err, fencepost.ErrOutcomeUnknown) {
			t.Fatalf("got %v", err)
		}
		if err := client.Close(done); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		if err := lock.Release(testContext(t)); !errors.Is(err, fencepost.ErrOutcomeUnknown) {
			t.Fatalf("got %v", err)
		}
		server.Kill()
	}
}

// A grant is handed out to a caller whose client is closed at that moment.
func TestCloseRacesWithGrants(t *testing.T) {
	server := fenceposttest.Start(t)
	other := newClient(t, server.Address)
	for range 50 {
		client := newClient(t, server.Address)
		acquired := make(chan struct{})
		go func() {
			defer close(acquired)
			lock, err := client.Acquire(context.Background(), "orders/42", fencepost.WithWaitUntilDone())
			if err == nil {
				<-lock.Context().Done()
				err = lock.Err()
			}
			if !errors.Is(err, fencepost.ErrClosed) {
				t.Errorf("got %v", err)
			}
		}()
		must(t, client.Close(testContext(t)))
		<-acquired
		must(t, acquire(t, other, "orders/42").Release(testContext(t)))
	}
}
