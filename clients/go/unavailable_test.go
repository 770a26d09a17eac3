//go:build unix

package fencepost_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	fencepost "github.com/fencepost/fencepost-go"
	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// refusal is the answer UNAVAILABLE with a reason.
func refusal(t *testing.T, reason string) *spb.Status {
	t.Helper()
	detail, err := anypb.New(&errdetails.ErrorInfo{Domain: "fencepost", Reason: reason})
	must(t, err)
	return &spb.Status{Code: int32(codes.Unavailable), Message: "not now", Details: []*anypb.Any{detail}}
}

// refused is the same answer to an operation of a session.
func refused(operation uint64, with *spb.Status) *pb.SessionResponse {
	return &pb.SessionResponse{Operation: operation, Message: &pb.SessionResponse_Error{
		Error: &pb.OperationError{Code: with.GetCode(), Message: with.GetMessage(), Details: with.GetDetails()},
	}}
}

// startRefusing starts a front that answers each acquire with UNAVAILABLE and a reason.
func startRefusing(t *testing.T, reason string) *front {
	t.Helper()
	with := refusal(t, reason)
	return startFront(t, fenceposttest.Start(t).Address, func(response *pb.SessionResponse) *pb.SessionResponse {
		if response.GetAcquire() == nil {
			return response
		}
		return refused(response.GetOperation(), with)
	})
}

// A server that says that it did nothing is believed: the caller may try again later, and nothing is left to clean up.
func TestAServerThatDidNothingIsUnavailable(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"STORE_UNAVAILABLE", "STORE_OVERLOADED", "TOO_LATE", "REQUEST_TOO_SLOW", "DRAINING"} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			_, err := newClient(t, startRefusing(t, reason).address).Acquire(testContext(t), "orders/42")
			away := as[*fencepost.UnavailableError](t, err)
			if away.Reason != reason || err.Error() != "fencepost: not now ("+reason+")" ||
				status.Code(err) != codes.Unavailable || errors.Is(err, fencepost.ErrRefused) ||
				errors.Is(err, fencepost.ErrOutcomeUnknown) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

// What may have been done is not taken for unavailable, whatever its cause is.
func TestAnUnknownOutcomeIsNotUnavailable(t *testing.T) {
	t.Parallel()
	_, err := newClient(t, startRefusing(t, "OUTCOME_UNKNOWN").address).Acquire(testContext(t), "orders/42")
	unknown := as[*fencepost.OutcomeUnknownError](t, err)
	if errors.Is(err, fencepost.ErrUnavailable) || errors.Is(err, fencepost.ErrRefused) ||
		unknown.Error() != "fencepost: outcome unknown: not now (OUTCOME_UNKNOWN)" {
		t.Fatalf("got %v", err)
	}
}

// lastAnswer is what an error tells of the answer to an earlier try.
const lastAnswer = "; the last answer was UNAVAILABLE (STORE_UNAVAILABLE): not now"

// startRefusingOnce starts a front that refuses the first operation of a kind, and answers no later one.
func startRefusingOnce(t *testing.T, is func(*pb.SessionResponse) bool) *front {
	t.Helper()
	with, first := refusal(t, "STORE_UNAVAILABLE"), true
	return startFront(t, fenceposttest.Start(t).Address, func(response *pb.SessionResponse) *pb.SessionResponse {
		switch {
		case !is(response):
			return response
		case first:
			first = false
			return refused(response.GetOperation(), with)
		default:
			return nil
		}
	})
}

// assertTold checks that an error tells the answer to an earlier try, and wraps it, and that this is not its outcome.
func assertTold(t *testing.T, err error) {
	t.Helper()
	answer := as[*fencepost.AnswerError](t, err)
	if answer.Code != codes.Unavailable || answer.Reason != "STORE_UNAVAILABLE" || answer.Message != "not now" ||
		!strings.HasSuffix(err.Error(), lastAnswer) {
		t.Fatalf("got %v", err)
	}
	if errors.Is(answer, fencepost.ErrUnavailable) || errors.Is(err, fencepost.ErrRefused) {
		t.Fatalf("the answer passes for the outcome: %v", err)
	}
}

func TestAnUnknownOutcomeTellsTheAnswerToAnEarlierTry(t *testing.T) {
	t.Parallel()
	t.Run("acquire", func(t *testing.T) {
		t.Parallel()
		isAcquire := func(response *pb.SessionResponse) bool { return response.GetAcquire() != nil }
		front := startRefusingOnce(t, isAcquire)
		_, err := newClient(t, front.address).Acquire(testContext(t), "orders/42")
		assertTold(t, err)
		if !errors.Is(err, fencepost.ErrOutcomeUnknown) || errors.Is(err, fencepost.ErrUnavailable) || status.Code(err) == codes.Unavailable {
			t.Fatalf("%v passes for the answer", err)
		}
	})
	t.Run("release", func(t *testing.T) {
		t.Parallel()
		isRelease := func(response *pb.SessionResponse) bool { return response.GetRelease() != nil }
		front := startRefusingOnce(t, isRelease)
		lock, err := newClient(t, front.address).Acquire(testContext(t), "orders/42")
		must(t, err)
		err = lock.Release(testContext(t))
		assertTold(t, err)
		if !errors.Is(err, fencepost.ErrOutcomeUnknown) {
			t.Fatalf("got %v", err)
		}
	})
}

// A refusingOnce refuses the first Get, and answers no later one.
type refusingOnce struct {
	pb.UnimplementedLockServiceServer
	with  *spb.Status
	calls atomic.Int32
}

func (r *refusingOnce) Get(ctx context.Context, _ *pb.GetRequest) (*pb.GetResponse, error) {
	if r.calls.Add(1) == 1 {
		return nil, status.ErrorProto(r.with)
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestACallWithoutAnAnswerTellsTheAnswerToAnEarlierTry(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		timeout time.Duration
		is      error
	}{
		{"until its time is over", time.Minute, fencepost.ErrUnavailable},
		{"until that of its caller is over", time.Second, context.DeadlineExceeded},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			server := grpc.NewServer()
			pb.RegisterLockServiceServer(server, &refusingOnce{with: refusal(t, "STORE_UNAVAILABLE")})
			go func() { _ = server.Serve(listener) }()
			t.Cleanup(server.Stop)
			ctx, cancel := context.WithTimeout(testContext(t), test.timeout)
			defer cancel()
			_, err = newClient(t, listener.Addr().String()).Get(ctx, "orders/42")
			assertTold(t, err)
			if !errors.Is(err, test.is) {
				t.Fatalf("got %v", err)
			}
		})
	}
}
