//go:build unix

package fencepost_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencepost "github.com/fencepost/fencepost-go"
	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

func TestAPausedProcessFindsItsLockLost(t *testing.T) {
	server := fenceposttest.Start(t)
	holder := startChild(t, "hold", server.Address, "orders/42")
	holder.line(t)
	must(t, holder.process.Process.Signal(syscall.SIGSTOP))
	next := acquire(t, newClient(t, server.Address), "orders/42")
	if next.PreviousEnd() != fencepost.EndExpired {
		t.Fatalf("the previous end is %v", next.PreviousEnd())
	}
	holder.tell(t, "valid?")
	must(t, holder.process.Process.Signal(syscall.SIGCONT))
	if got := holder.line(t); got[:11] != "false false" {
		t.Fatal(got)
	}
}

func TestAProcessThatEndsLeavesItsLockToTheTTL(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	leaver := startChild(t, "leave", server.Address, "orders/42")
	leaver.line(t)
	must(t, leaver.process.Wait())
	if next := acquire(t, newClient(t, server.Address), "orders/42"); next.PreviousEnd() != fencepost.EndExpired {
		t.Fatalf("the previous end is %v", next.PreviousEnd())
	}
}

func TestAnInterruptedWaitLeavesTheQueue(t *testing.T) {
	server := fenceposttest.Start(t)
	client := newClient(t, server.Address)
	lock := acquire(t, client, "orders/42")
	waiter := startChild(t, "wait", server.Address, "orders/42")
	waiter.line(t)
	// Programs that a shell runs in the background ignore SIGINT.
	must(t, waiter.process.Process.Signal(syscall.SIGTERM))
	_ = waiter.process.Wait()
	must(t, lock.Release(testContext(t)))
	acquire(t, client, "orders/42")
}

// A silent connection is left for a new one: to the next server, or to the same one.
func TestASilentStreamIsLeft(t *testing.T) {
	t.Parallel()
	redis, _ := startRedis(t)
	first, second := fenceposttest.Start(t, "--store", redis), fenceposttest.Start(t, "--store", redis)
	silent := startProxy(t, first.Address)
	client := newClient(t, silent.address, second.Address)
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(2*time.Second))
	silent.setSilent(true)
	outlive(t, 2*time.Second, lock)
	must(t, lock.Release(testContext(t)))
}

func TestADeadConnectionToTheOnlyServerIsReplaced(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	through := startProxy(t, server.Address)
	client := newClient(t, through.address)
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(2*time.Second))
	through.disconnect()
	outlive(t, 2*time.Second, lock)
	must(t, lock.Release(testContext(t)))
}

// The transport's buffers fill up when nobody reads. Nothing may hang then.
func TestASenderThatIsBlockedDoesNotBlockAnythingElse(t *testing.T) {
	server := fenceposttest.Start(t)
	through := startProxy(t, server.Address)
	client := newClient(t, through.address)
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(2*time.Second))
	through.setSilent(true)
	large := map[string]string{"large": string(make([]byte, 4000))}
	var calls sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	for i := range 500 {
		calls.Go(func() {
			if _, err := client.TryAcquire(ctx, fmt.Sprint("other/", i), fencepost.WithMetadata(large)); err == nil {
				t.Error("acquired through a silent proxy")
			}
		})
	}
	if got := lost(t, lock); got.Reason != fencepost.LossSilence {
		t.Fatalf("got %+v", got)
	}
	cancel()
	calls.Wait()
	ctx, cancel = context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := client.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
}

// A caller gives up at the very moment at which the lock is granted to it.
func TestACancelledAcquireHoldsNothing(t *testing.T) {
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	for round := range 100 {
		lock := acquire(t, client, "orders/42")
		ctx, cancel := context.WithCancel(context.Background())
		queued := make(chan struct{})
		ended := make(chan struct{})
		var granted atomic.Pointer[fencepost.Lock]
		go func() {
			defer close(ended)
			next, err := other.Acquire(ctx, "orders/42", fencepost.WithWaitUntilDone(),
				fencepost.WithOnQueuePosition(once(queued)))
			if err == nil {
				granted.Store(next)
			}
		}()
		<-queued
		go cancel()
		if round%2 == 0 {
			<-ctx.Done()
		}
		must(t, lock.Release(testContext(t)))
		<-ended
		if next := granted.Load(); next != nil {
			must(t, next.Release(testContext(t)))
		}
		// If the abandoned grant was left to its TTL, this would take 30 s.
		quick, cancelQuick := context.WithTimeout(context.Background(), 10*time.Second)
		last, err := client.Acquire(quick, "orders/42", fencepost.WithWaitUntilDone())
		cancelQuick()
		must(t, err)
		must(t, last.Release(testContext(t)))
		cancel()
	}
}

func TestAReleaseIsSentWhenItsContextIsDone(t *testing.T) {
	server := fenceposttest.Start(t)
	client := newClient(t, server.Address)
	lock := acquire(t, client, "orders/42")
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if err := lock.Release(done); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if next := acquire(t, client, "orders/42"); next.PreviousEnd() != fencepost.EndReleased {
		t.Fatalf("the previous end is %v", next.PreviousEnd())
	}
}

func TestCloseReleasesLocksAndEndsWaits(t *testing.T) {
	server := fenceposttest.Start(t)
	client, other := newClient(t, server.Address), newClient(t, server.Address)
	lock, elsewhere := acquire(t, client, "orders/42"), acquire(t, other, "orders/43")
	queued, waiting := make(chan struct{}), make(chan error)
	go func() {
		_, err := client.Acquire(testContext(t), "orders/43", fencepost.WithWaitUntilDone(),
			fencepost.WithOnQueuePosition(once(queued)))
		waiting <- err
	}()
	<-queued
	must(t, client.Close(testContext(t)))
	if err := <-waiting; !errors.Is(err, fencepost.ErrClosed) {
		t.Fatalf("got %v", err)
	}
	if !errors.Is(lock.Err(), fencepost.ErrClosed) || lock.Valid() {
		t.Fatalf("got %v", lock.Err())
	}
	if _, err := client.Acquire(testContext(t), "orders/44"); !errors.Is(err, fencepost.ErrClosed) {
		t.Fatalf("got %v", err)
	}
	if next := acquire(t, other, "orders/42"); next.PreviousEnd() != fencepost.EndReleased {
		t.Fatalf("the previous end is %v", next.PreviousEnd())
	}
	info, err := other.Get(testContext(t), "orders/43")
	must(t, err)
	if info.Waiters != 0 || !elsewhere.Valid() {
		t.Fatalf("got %+v", info)
	}
}

// A thousand locks on one client are kept, and released.
func TestAThousandLocks(t *testing.T) {
	t.Parallel()
	// On a busy machine, so many grants take seconds.
	const ttl = 8 * time.Second
	server := fenceposttest.Start(t)
	client := newClient(t, server.Address)
	locks := make([]*fencepost.Lock, 1000)
	var all sync.WaitGroup
	for i := range locks {
		all.Go(func() {
			var err error
			locks[i], err = client.Acquire(testContext(t), fmt.Sprint("orders/", i), fencepost.WithTTL(ttl))
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	outlive(t, ttl, locks...)
	for _, lock := range locks {
		all.Go(func() {
			if err := lock.Release(testContext(t)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// Nothing listens, or what listens hangs up: the client connects again, but not in a busy loop.
func TestNoServerIsNoBusyLoop(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var accepted atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			_ = connection.Close()
		}
	}()
	client := newClient(t, listener.Addr().String())
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_, err = client.Acquire(ctx, "orders/42")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	must(t, listener.Close())
	<-ended
	if got := accepted.Load(); got < 2 || got > 60 {
		t.Fatalf("%d connections in 3 s", got)
	}
}

func TestAnUnreachableServerIsReported(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := listener.Addr().String()
	must(t, listener.Close())
	_, err = newClient(t, address).Acquire(context.Background(), "orders/42")
	if away := as[*fencepost.UnavailableError](t, err); away.Reason != "" ||
		err.Error() != "fencepost: no server could be reached: "+address+": connection refused" {
		t.Fatalf("got %v", err)
	}
	if errors.Is(err, fencepost.ErrRefused) || !errors.Is(err, fencepost.ErrUnavailable) ||
		status.Code(err) != codes.Unavailable {
		t.Fatalf("got %v", err)
	}
}

// logged is a handler of logs that calls a function with each message.
type logged func(message string)

func (l logged) Enabled(context.Context, slog.Level) bool { return true }
func (l logged) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l logged) WithGroup(string) slog.Handler            { return l }
func (l logged) Handle(_ context.Context, record slog.Record) error {
	l(record.Message)
	return nil
}

// seen is a stream that calls a function after each message that the client sent.
type seen struct {
	grpc.ClientStream
	sent func(message any)
}

func (s seen) SendMsg(message any) error {
	err := s.ClientStream.SendMsg(message)
	s.sent(message)
	return err
}

// A context that ends before the servers have answered is not taken for contention: the error says what went wrong. It
// ends at the moment of which the error tells.
func TestAnAcquireThatIsGivenUpSaysWhyItHasNoAnswer(t *testing.T) {
	t.Parallel()
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	refusing := nobody.Addr().String()
	must(t, nobody.Close())
	hanging, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, and nobody says anything
	must(t, err)
	t.Cleanup(func() { must(t, hanging.Close()) })
	held := fenceposttest.Start(t)
	acquire(t, newClient(t, held.Address), "orders/42")
	paused := fenceposttest.Start(t)
	for name, test := range map[string]struct {
		server string
		// until is the event after which the context ends.
		until string
		why   string
	}{
		"refusing": {refusing, "a session failed", "no server could be reached: .*connection refused"},
		"hanging":  {hanging.Addr().String(), "a session failed", "could be reached: .*accepted the connection and sent nothing"},
		"paused":   {paused.Address, "it is sent", "the server has not answered yet"},
		"held":     {held.Address, "it is queued", `^fencepost: orders/42 is not acquired: context canceled$`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			happened := func(event string) {
				if event == test.until {
					cancel()
				}
			}
			watched := func(
				ctx context.Context, description *grpc.StreamDesc, connection *grpc.ClientConn, method string,
				open grpc.Streamer, options ...grpc.CallOption,
			) (grpc.ClientStream, error) {
				stream, err := open(ctx, description, connection, method, options...)
				sent := func(message any) {
					request, _ := message.(*pb.SessionRequest)
					if request.GetAcquire().GetRequest().GetLockName() == "orders/42" {
						happened("it is sent")
					}
				}
				return seen{stream, sent}, err
			}
			client, err := fencepost.New(fencepost.Config{
				Servers:     []string{test.server},
				DialOptions: []grpc.DialOption{grpc.WithStreamInterceptor(watched)},
				Logger: slog.New(logged(func(message string) {
					if strings.HasPrefix(message, "server "+test.server+" failed (") {
						happened("a session failed")
					}
				})),
			})
			must(t, err)
			t.Cleanup(func() { _ = client.Close(context.Background()) })
			if name == "paused" {
				must(t, acquire(t, client, "orders/43").Release(testContext(t)))
				must(t, paused.Pause())
				t.Cleanup(func() { must(t, paused.Resume()) })
			}
			queued := fencepost.WithOnQueuePosition(func(int) { happened("it is queued") })
			// Longer than this takes on any machine.
			_, err = client.Acquire(ctx, "orders/42", fencepost.WithWait(time.Hour), queued)
			if !errors.Is(err, context.Canceled) || !regexp.MustCompile(test.why).MatchString(err.Error()) {
				t.Fatalf("got %v", err)
			}
		})
	}
}
