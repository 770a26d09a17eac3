//go:build unix

package fencepost_test

import (
	"context"
	"errors"
	"iter"
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

// states observes a lock until the end of the test. The function returns the next state.
func states(t *testing.T, client *fencepost.Client, name string) func() fencepost.LockInfo {
	t.Helper()
	next, stop := iter.Pull2(client.Observe(testContext(t), name))
	t.Cleanup(stop)
	return func() fencepost.LockInfo {
		t.Helper()
		state, err, _ := next()
		must(t, err)
		if state.Name != name {
			t.Fatalf("got %+v", state)
		}
		return state
	}
}

func TestAnObserverSeesEachState(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client, ctx := newClient(t, server.Address), testContext(t)
	next := states(t, newClient(t, server.Address), "scheduler")
	if free := next(); len(free.Holders) != 0 {
		t.Fatalf("got %+v", free)
	}
	lock := acquire(t, client, "scheduler")
	if held := next(); held.Holders[0].Token != lock.Token() || held.Holders[0].Shared {
		t.Fatalf("got %+v", held)
	}
	describe(t, lock, at("a"), "")
	if described := next(); described.Holders[0].Metadata["address"] != "a" || described.Holders[0].Description != 1 {
		t.Fatalf("got %+v", described)
	}
	must(t, lock.Downgrade(ctx))
	if shared := next(); !shared.Holders[0].Shared {
		t.Fatalf("got %+v", shared)
	}
	must(t, lock.Release(ctx))
	if free := next(); len(free.Holders) != 0 || free.PreviousEnd != fencepost.EndReleased {
		t.Fatalf("got %+v", free)
	}
}

func TestAnObserverOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	through := startProxy(t, server.Address)
	next := states(t, newClient(t, through.address), "orders/42")
	_ = next()
	lock := acquire(t, newClient(t, server.Address), "orders/42")
	_ = next()
	// What happens meanwhile is seen afterwards.
	through.stop()
	must(t, lock.Release(testContext(t)))
	_ = startProxyAt(t, through.address, server.Address)
	if free := next(); len(free.Holders) != 0 {
		t.Fatalf("got %+v", free)
	}
}

func TestAnObservationEndsWithItsContextAndItsClient(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	client := newClient(t, server.Address)
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	var ended error
	for _, err := range client.Observe(ctx, "orders/42") {
		cancel()
		ended = err
	}
	if !errors.Is(ended, context.Canceled) {
		t.Fatalf("got %v", ended)
	}
	for _, err := range client.Observe(testContext(t), "orders/42") {
		if ended = err; ended == nil {
			must(t, client.Close(testContext(t)))
		}
	}
	if !errors.Is(ended, fencepost.ErrClosed) {
		t.Fatalf("got %v", ended)
	}
	for _, err := range newClient(t, "127.0.0.1:1").Observe(testContext(t), "\xff") {
		_ = as[*fencepost.RefusedError](t, err)
	}
}

// A scripted server answers each observation with the next error, after a state.
type scripted struct {
	pb.UnimplementedLockServiceServer
	errors []error
	count  atomic.Int32
	ended  chan struct{}
}

func (s *scripted) Observe(_ *pb.ObserveRequest, stream grpc.ServerStreamingServer[pb.ObserveResponse]) error {
	i := int(s.count.Add(1)) - 1
	state := &pb.ObserveResponse{Lock: &pb.LockInfo{LockName: "orders/42", NewestToken: uint64(i)}}
	if i < len(s.errors) && i%2 == 1 {
		return s.errors[i] // before the first state
	}
	if err := stream.Send(state); err != nil {
		return err
	}
	if i < len(s.errors) {
		return s.errors[i]
	}
	<-stream.Context().Done()
	close(s.ended)
	return nil
}

func (s *scripted) start(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server, serving := grpc.NewServer(), make(chan error, 1)
	pb.RegisterLockServiceServer(server, s)
	go func() { serving <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		must(t, <-serving)
	})
	return listener.Addr().String()
}

func TestAnObserverObservesAgain(t *testing.T) {
	t.Parallel()
	server := &scripted{ended: make(chan struct{}), errors: []error{
		status.Error(codes.Unavailable, "the state cannot be read"), status.Error(codes.Unavailable, "still not"), nil,
	}}
	var seen []uint64
	for state, err := range newClient(t, server.start(t)).Observe(testContext(t), "orders/42") {
		must(t, err)
		if seen = append(seen, state.NewestToken); len(seen) == 3 {
			break
		}
	}
	if seen[0] != 0 || seen[1] != 2 || seen[2] != 3 {
		t.Fatalf("got %v", seen)
	}
	select {
	case <-server.ended:
	case <-time.After(10 * time.Second): // a stream that nothing refers to ends at some time
		t.Fatal("the end of the iteration has not ended the stream")
	}
}

func TestARefusalEndsAnObservation(t *testing.T) {
	t.Parallel()
	server := &scripted{errors: []error{status.Error(codes.PermissionDenied, "no longer allowed")}}
	var refused error
	for _, err := range newClient(t, server.start(t)).Observe(testContext(t), "orders/42") {
		refused = err
	}
	if as[*fencepost.RefusedError](t, refused).Code != codes.PermissionDenied || server.count.Load() != 1 {
		t.Fatalf("got %v after %d observations", refused, server.count.Load())
	}
}
