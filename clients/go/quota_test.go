//go:build unix

package fencepost_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	fencepost "github.com/fencepost/fencepost-go"
	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// startLimited starts a server that allows each address so much.
func startLimited(t *testing.T, limits string) *fenceposttest.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "access.toml")
	access := "mode = \"open\"\n[[quota]]\neach_address = true\n" + limits + "\n"
	must(t, os.WriteFile(file, []byte(access), 0o600))
	return fenceposttest.Start(t, "--access", file)
}

// exceeded is the error of a call that a quota has refused.
func exceeded(t *testing.T, err error) *fencepost.RefusedError {
	t.Helper()
	refused := as[*fencepost.RefusedError](t, err)
	if refused.Code != codes.ResourceExhausted || refused.Reason != "QUOTA_EXCEEDED" || refused.RetryAfter <= 0 {
		t.Fatalf("got %+v", refused)
	}
	return refused
}

// postponed is a refusal that asks to wait so long before a repetition.
func postponed(t *testing.T, reason string, pause time.Duration) *spb.Status {
	t.Helper()
	with := refusalOf(t, codes.ResourceExhausted, reason)
	detail, err := anypb.New(&errdetails.RetryInfo{RetryDelay: durationpb.New(pause)})
	must(t, err)
	with.Details = append(with.Details, detail)
	return with
}

func TestAnAcquireAboveTheRateIsRepeatedOnTheSameServerWhileItWaits(t *testing.T) {
	t.Parallel()
	const rate = "acquires_per_second = 4\nburst = 2"
	first, second := startLimited(t, rate), startLimited(t, rate)
	client, log := newJournal(t, first.Address, second.Address)
	held, ctx := 0, testContext(t)
	for ; ; held++ {
		lock, err := client.TryAcquire(ctx, fmt.Sprintf("a/%d", held))
		if err != nil {
			_ = exceeded(t, err)
			break
		}
		defer lock.Release(ctx) //nolint:errcheck // the server ends as well
	}
	for _, wait := range []fencepost.AcquireOption{fencepost.WithWait(patience), fencepost.WithWaitUntilDone()} {
		lock, err := client.Acquire(ctx, fmt.Sprintf("a/%d", held), wait)
		must(t, err)
		defer lock.Release(ctx) //nolint:errcheck // the server ends as well
		held++
	}
	must(t, client.Lead(ctx, "b", func(context.Context, *fencepost.Lock) error { return nil }))
	// They share no store, so each server tells what has reached it.
	for server, count := range map[*fenceposttest.Server]int{first: held, second: 0} {
		for _, err := range newClient(t, server.Address).List(ctx, "a/") {
			must(t, err)
			count--
		}
		if count != 0 {
			t.Errorf("%d locks are missing", count)
		}
	}
	if len(log.with("trying")) != 0 {
		t.Errorf("got %q", log.lines)
	}
}

func TestAnAcquireThatIsGivenUpWhileItWaitsForItsRepetitionIsNotSentAgain(t *testing.T) {
	t.Parallel()
	var sent []string
	third := make(chan struct{})
	soon, late := postponed(t, "QUOTA_EXCEEDED", 10*time.Millisecond), postponed(t, "QUOTA_EXCEEDED", time.Minute)
	server := startElectoral(t, func(count int32, request *pb.SessionRequest) []*pb.SessionResponse {
		acquire := request.GetAcquire().GetRequest()
		sent = append(sent, fmt.Sprint(acquire.GetRequestId(), acquire.GetAttempt()))
		switch {
		case count < 3:
			return []*pb.SessionResponse{refused(request.GetOperation(), soon)}
		case count == 3:
			defer close(third)
		}
		return []*pb.SessionResponse{refused(request.GetOperation(), late)}
	})
	client := newClient(t, server.address)
	ctx, cancel := context.WithCancel(context.Background()) // without a deadline, which bounds the wait
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := client.Acquire(ctx, "a", fencepost.WithRequestID("id"), fencepost.WithWait(time.Hour))
		failed <- err
	}()
	next(t, third)
	cancel()
	if err := next(t, failed); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	// No repetition fits into this wait.
	_, err := client.Acquire(testContext(t), "b", fencepost.WithRequestID("b"), fencepost.WithWait(time.Second))
	if exceeded(t, err).RetryAfter != time.Minute {
		t.Fatalf("got %v", err)
	}
	must(t, client.Close(testContext(t)))
	if got := strings.Join(sent, " "); got != "id1 id2 id3 b1" {
		t.Fatalf("sent %s: nothing was granted, and nothing is to be withdrawn", got)
	}
}

func TestASessionAboveTheQuotaIsOpenedOnTheSameServerOnceAnotherStreamIsClosed(t *testing.T) {
	t.Parallel()
	server, other := startLimited(t, "streams = 1"), fenceposttest.Start(t)
	first := newClient(t, server.Address)
	acquire(t, first, "a/1")
	client, log := newJournal(t, server.Address, other.Address)
	ctx, cancel := context.WithTimeout(testContext(t), 300*time.Millisecond)
	defer cancel()
	_, err := client.TryAcquire(ctx, "a/2")
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "QUOTA_EXCEEDED") {
		t.Fatalf("got %v", err)
	}
	for _, err := range client.Observe(ctx, "a/1") {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
	}
	granted := make(chan error, 1)
	go func() {
		_, err := client.TryAcquire(testContext(t), "a/2")
		granted <- err
	}()
	must(t, first.Close(testContext(t)))
	must(t, next(t, granted))
	info, err := newClient(t, other.Address).Get(testContext(t), "a/2")
	must(t, err)
	if len(info.Holders) != 0 || len(log.with("trying")) != 0 {
		t.Fatalf("got %+v and %q", info, log.lines)
	}
}

func TestASessionThatFellSilentMakesRoomForTheNextOne(t *testing.T) {
	t.Parallel()
	server := startLimited(t, "streams = 1")
	client := newClient(t, server.Address)
	risk := make(chan struct{})
	atRisk := fencepost.WithOnAtRisk(sync.OnceFunc(func() { close(risk) }))
	lock := acquire(t, client, "a/1", fencepost.WithTTL(3*time.Second), atRisk)
	must(t, server.Pause())
	next(t, risk)
	must(t, server.Resume())
	acquire(t, client, "a/2")
	must(t, lock.Release(testContext(t)))
}

// A crowded server has no room for the first two streams of each kind.
type crowded struct {
	pb.UnimplementedLockServiceServer
	full                            map[string]error
	sessions, watches, observations atomic.Int32
}

func (c *crowded) Session(stream grpc.BidiStreamingServer[pb.SessionRequest, pb.SessionResponse]) error {
	if c.sessions.Add(1) <= 2 {
		return c.full["SERVER_FULL"]
	}
	return (&electoralServer{answer: func(count int32, request *pb.SessionRequest) []*pb.SessionResponse {
		return []*pb.SessionResponse{grant(count, request)}
	}}).Session(stream)
}

func (c *crowded) Watch(_ *pb.WatchRequest, stream grpc.ServerStreamingServer[pb.WatchResponse]) error {
	if c.watches.Add(1) <= 2 {
		return c.full["WATCHERS_FULL"]
	}
	return stream.Send(&pb.WatchResponse{Kind: pb.WatchResponse_KIND_STARTED})
}

func (c *crowded) Observe(_ *pb.ObserveRequest, stream grpc.ServerStreamingServer[pb.ObserveResponse]) error {
	if c.observations.Add(1) <= 2 {
		return c.full["QUOTA_EXCEEDED"]
	}
	return stream.Send(&pb.ObserveResponse{})
}

func TestAServerWithoutRoomForAStreamIsAskedAgain(t *testing.T) {
	t.Parallel()
	crowd := &crowded{full: map[string]error{}}
	for _, reason := range []string{"SERVER_FULL", "WATCHERS_FULL", "QUOTA_EXCEEDED"} {
		crowd.full[reason] = status.ErrorProto(postponed(t, reason, 10*time.Millisecond))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server, serving := grpc.NewServer(), make(chan error, 1)
	pb.RegisterLockServiceServer(server, crowd)
	go func() { serving <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		must(t, <-serving)
	})
	client := newClient(t, listener.Addr().String())
	_, err = client.TryAcquire(testContext(t), "a", fencepost.WithTTL(time.Minute))
	must(t, err)
	watcher, err := client.Watch(testContext(t), "")
	must(t, err)
	watcher.Close()
	for _, err := range client.Observe(testContext(t), "a") {
		must(t, err)
		break
	}
	if counts := []int32{crowd.sessions.Load(), crowd.watches.Load(), crowd.observations.Load()}; counts[0] != 3 ||
		counts[1] != 3 || counts[2] != 3 {
		t.Fatalf("got %v streams", counts)
	}
}
