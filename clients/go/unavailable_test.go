//go:build unix

package fencepost_test

import (
	"errors"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	fencepost "github.com/fencepost/fencepost-go"
	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// startRefusing starts a front that answers each acquire with UNAVAILABLE and a reason.
func startRefusing(t *testing.T, reason string) *front {
	t.Helper()
	detail, err := anypb.New(&errdetails.ErrorInfo{Domain: "fencepost", Reason: reason})
	must(t, err)
	return startFront(t, fenceposttest.Start(t).Address, func(response *pb.SessionResponse) *pb.SessionResponse {
		if response.GetAcquire() == nil {
			return response
		}
		return &pb.SessionResponse{Operation: response.GetOperation(), Message: &pb.SessionResponse_Error{
			Error: &pb.OperationError{
				Code: int32(codes.Unavailable), Message: "not now", Details: []*anypb.Any{detail},
			},
		}}
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
