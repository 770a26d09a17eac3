//go:build unix

package fencepost_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	fencepost "github.com/fencepost/fencepost-go"
	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// An electoralServer answers each acquire as it is told, by the number of acquires so far.
type electoralServer struct {
	pb.UnimplementedLockServiceServer
	address  string
	acquires atomic.Int32
	answer   func(count int32, request *pb.SessionRequest) []*pb.SessionResponse
}

func startElectoral(
	t *testing.T, answer func(count int32, request *pb.SessionRequest) []*pb.SessionResponse,
) *electoralServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	e := &electoralServer{address: listener.Addr().String(), answer: answer}
	server := grpc.NewServer()
	pb.RegisterLockServiceServer(server, e)
	serving := make(chan error, 1)
	go func() { serving <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		must(t, <-serving)
	})
	return e
}

func (e *electoralServer) Session(stream grpc.BidiStreamingServer[pb.SessionRequest, pb.SessionResponse]) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			return nil // the client has ended it
		}
		var answers []*pb.SessionResponse
		switch {
		case request.GetAcquire() != nil:
			answers = e.answer(e.acquires.Add(1), request)
		case request.GetRelease() != nil:
			answers = []*pb.SessionResponse{{
				Operation: request.GetOperation(),
				Message:   &pb.SessionResponse_Release{Release: &pb.ReleaseResponse{End: pb.LeaseEnd_LEASE_END_RELEASED}},
			}}
		}
		for _, answer := range answers {
			if err := stream.Send(answer); err != nil {
				return err
			}
		}
	}
}

// grant is the answer to an acquire, with its number as the token.
func grant(count int32, request *pb.SessionRequest) *pb.SessionResponse {
	return &pb.SessionResponse{Operation: request.GetOperation(), Message: &pb.SessionResponse_Acquire{
		Acquire: &pb.AcquireResponse{Outcome: pb.AcquireResponse_OUTCOME_ACQUIRED, Lease: &pb.Lease{
			LockName: request.GetAcquire().GetRequest().GetLockName(), LeaseId: "lease", GrantId: "grant",
			FencingToken: uint64(count), Ttl: durationpb.New(time.Minute),
		}},
	}}
}

// refusalOf is an answer with a code and a reason.
func refusalOf(t *testing.T, code codes.Code, reason string) *spb.Status {
	t.Helper()
	with := refusal(t, reason)
	with.Code = int32(code)
	return with
}

// What a later campaign may mend is no error of an election, and the logger is told once.
func TestAnElectorOutlastsRefusalsThatPass(t *testing.T) {
	t.Parallel()
	for name, with := range map[string]*spb.Status{
		"a full queue":    refusalOf(t, codes.ResourceExhausted, "QUEUE_FULL"),
		"a full server":   refusalOf(t, codes.ResourceExhausted, "SERVER_FULL"),
		"a server's bug":  refusalOf(t, codes.Internal, ""),
		"a corrupt store": refusalOf(t, codes.DataLoss, "STORE_CORRUPT"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const refusals = 4
			server := startElectoral(t, func(count int32, request *pb.SessionRequest) []*pb.SessionResponse {
				if count <= refusals {
					return []*pb.SessionResponse{refused(request.GetOperation(), with)}
				}
				return []*pb.SessionResponse{grant(count, request)}
			})
			client, log := newJournal(t, server.address)
			begun := time.Now()
			terms, done := lead(testContext(t), client, "scheduler")
			led := next(t, terms)
			// At least half of 50, 100, 200 and 400 ms.
			if waited := time.Since(begun); waited < 375*time.Millisecond || led.lock.Token() != refusals+1 {
				t.Errorf("elected after %v with token %d", waited, led.lock.Token())
			}
			led.end <- nil
			must(t, next(t, done))
			must(t, client.Close(testContext(t)))
			if told := log.with("the campaign for scheduler fails, and goes on: not now"); len(told) != 1 {
				t.Errorf("got %q", log.lines)
			}
		})
	}
}

func TestAnElectorReturnsRefusalsThatDoNotPass(t *testing.T) {
	t.Parallel()
	for code, reason := range map[codes.Code]string{
		codes.InvalidArgument: "INVALID_FIELD", codes.FailedPrecondition: "NOT_ALL_SERVERS",
		codes.PermissionDenied: "", codes.Unauthenticated: "", codes.Unimplemented: "",
	} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			with := refusalOf(t, code, reason)
			server := startElectoral(t, func(_ int32, request *pb.SessionRequest) []*pb.SessionResponse {
				return []*pb.SessionResponse{refused(request.GetOperation(), with)}
			})
			_, done := lead(testContext(t), newClient(t, server.address), "scheduler")
			got := as[*fencepost.RefusedError](t, next(t, done))
			if got.Code != code || got.Reason != reason || server.acquires.Load() != 1 {
				t.Fatalf("got %+v after %d acquires", got, server.acquires.Load())
			}
		})
	}
}

func TestAnElectorReturnsThatItsServerIsNone(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	_, done := lead(testContext(t), newClient(t, web.Listener.Addr().String()), "scheduler")
	if err := next(t, done); !errors.Is(err, fencepost.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
}

func TestAnElectionIsChecked(t *testing.T) {
	t.Parallel()
	client := newClient(t, fenceposttest.Start(t).Address)
	never := func(context.Context, *fencepost.Lock) error { panic("elected") }
	for field, call := range map[string]func() error{
		"lock_name": func() error { return client.Lead(testContext(t), "a\nb", never) },
		"body":      func() error { return client.Lead(testContext(t), "scheduler", nil) },
		"wait_timeout": func() error {
			return client.Lead(testContext(t), "scheduler", never, fencepost.WithWait(time.Second))
		},
		"request_id": func() error {
			return client.Lead(testContext(t), "scheduler", never, fencepost.WithRequestID("a"))
		},
	} {
		refused := as[*fencepost.RefusedError](t, call())
		if refused.Code != codes.InvalidArgument || len(refused.Violations) != 1 || refused.Violations[0].Field != field {
			t.Errorf("%s: got %+v", field, refused)
		}
	}
}

// What ends a term at once may do so for long: each campaign begins after a pause.
func TestShortTermsAreFollowedByPauses(t *testing.T) {
	t.Parallel()
	server := fenceposttest.Start(t)
	terms, begun := 0, time.Now()
	err := newClient(t, server.Address).Lead(testContext(t), "scheduler",
		func(ctx context.Context, _ *fencepost.Lock) error {
			if terms++; terms > 4 {
				return nil
			}
			must(t, server.Lose("scheduler"))
			<-ctx.Done()
			return ctx.Err()
		})
	must(t, err)
	// At least half of 50, 100, 200 and 400 ms.
	if waited := time.Since(begun); waited < 375*time.Millisecond || terms != 5 {
		t.Fatalf("%d terms in %v", terms, waited)
	}
}
