package fenceposttest

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
)

// pingMin is the shortest interval of pings that is allowed to clients. It is below theirs, of 10 s; by default gRPC
// ends connections with pings more often than each 5 min.
const pingMin = time.Second

// A FakeServer is a lock server inside the process, for tests without the program: real clients connect to it over a
// socket, and it fails when it is told to.
//
// It grants locks in order, and serves all that a client of this module calls. It does not check the limits of
// requests, forgets nothing, and has neither TLS nor drains. For those use a [Server].
//
//	server := fenceposttest.StartFake(t)
//	client, err := fencepost.New(fencepost.Config{Servers: []string{server.Address}})
//	…
//	lock, err := client.Acquire(ctx, "orders/42")
//	…
//	err = server.Lose("orders/42") // lock.Context() ends
type FakeServer struct {
	// Address is the address for [github.com/fencepost/fencepost-go.Config].
	Address string

	server *grpc.Server
	// goroutines are the one that listens and those that read sessions.
	goroutines sync.WaitGroup

	mu sync.Mutex
	// changed reports changes of what follows, and of the queues of messages.
	changed         *sync.Cond
	paused, stopped bool
	// drops is the number of answers to drop.
	drops    int
	locks    fakeLocks
	watchers map[*fakeWatcher]struct{}
}

// StartFake starts a fake server, and stops it when the test ends.
func StartFake(tb testing.TB) *FakeServer {
	tb.Helper()
	server, err := LaunchFake()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(server.Stop)
	return server
}

// LaunchFake starts a fake server on a free port of 127.0.0.1, for code without a test at hand, such as TestMain: stop
// it.
func LaunchFake() (*FakeServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the fake server cannot listen: %w", err)
	}
	f := &FakeServer{
		Address: listener.Addr().String(),
		server: grpc.NewServer(
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingMin, PermitWithoutStream: true}),
			grpc.WaitForHandlers(true),
		),
		watchers: map[*fakeWatcher]struct{}{},
	}
	f.changed = sync.NewCond(&f.mu)
	f.locks = newFakeLocks(f.after, f.report)
	pb.RegisterLockServiceServer(f.server, fakeService{fake: f})
	f.goroutines.Go(func() { _ = f.server.Serve(listener) }) // it ends by Stop
	return f, nil
}

// Pause makes the server silent, as if its process was stopped: from now on nothing is answered and nothing is renewed,
// and connections stay open. Leases end by their TTLs.
func (f *FakeServer) Pause() { f.setPaused(true) }

// Resume ends a pause.
func (f *FakeServer) Resume() { f.setPaused(false) }

func (f *FakeServer) setPaused(paused bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paused = paused
	f.changed.Broadcast()
}

// Lose revokes the lease of a lock, as an operator can. The error says that nobody holds the lock.
func (f *FakeServer) Lose(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := f.locks.lock(name).current
	if held == nil {
		return fmt.Errorf("nobody holds the lock %q", name)
	}
	f.locks.lose(held, pb.LeaseEnd_LEASE_END_REVOKED)
	return nil
}

// DropReply drops the answer to the next acquire, release or renewal, together with its connection. What was asked for
// is done: the client asks again, with the same ids. Each call drops one answer.
func (f *FakeServer) DropReply() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drops++
}

// Stop ends the server and its connections. It may be called again.
func (f *FakeServer) Stop() {
	f.mu.Lock()
	f.stopped = true
	f.changed.Broadcast()
	f.mu.Unlock()
	f.server.Stop()
	f.goroutines.Wait()
}

// running waits until the server is not paused, and calls do with the mutex held. It reports false if the server has
// been stopped.
func (f *FakeServer) running(do func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.paused && !f.stopped {
		f.changed.Wait()
	}
	if !f.stopped {
		do()
	}
	return !f.stopped
}

// after calls do with the mutex held when the time is over, unless the server has been stopped.
func (f *FakeServer) after(wait time.Duration, do func()) *time.Timer {
	return time.AfterFunc(wait, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !f.stopped {
			do()
		}
	})
}

// A fakeQueue has the messages to one client. The mutex of the server guards it.
type fakeQueue[T any] struct {
	messages []T
	// closed is whether nothing is sent any more.
	closed bool
}

// put queues a message.
func put[T any](f *FakeServer, queue *fakeQueue[T], message T) {
	queue.messages = append(queue.messages, message)
	f.changed.Broadcast()
}

// take waits for the next message. It reports false if there is none any more.
func take[T any](f *FakeServer, queue *fakeQueue[T], taken func(T)) (next T, more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !queue.closed && !f.stopped && (f.paused || len(queue.messages) == 0) {
		f.changed.Wait()
	}
	if queue.closed || f.stopped {
		return next, false
	}
	next, queue.messages = queue.messages[0], queue.messages[1:]
	taken(next)
	return next, true
}
