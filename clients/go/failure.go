package fencepost

import (
	"math/rand/v2"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/internal/facts"
)

// A failure is why one transmission of a call failed, and what that says about its effect.
type failure struct {
	code       codes.Code
	reason     string
	message    string
	violations []FieldViolation
	retryAfter time.Duration
	// unsent is whether the transmission never left this process.
	unsent bool
	// hopeless is whether no server can be reached before the configuration changes.
	hopeless bool
}

func (f *failure) Error() string {
	if f.message == "" {
		return f.code.String()
	}
	return f.message
}

// failureOf reads the status of a call.
func failureOf(err error) *failure { return failureFrom(status.Convert(err).Proto()) }

// failureOfOperation reads the error of an operation of a session, which has the fields of a status.
func failureOfOperation(err *pb.OperationError) *failure {
	return failureFrom(&spb.Status{Code: err.GetCode(), Message: err.GetMessage(), Details: err.GetDetails()})
}

func failureFrom(wire *spb.Status) *failure {
	if wire.GetCode() == int32(codes.OK) {
		return unavailable("the server ended the stream")
	}
	failed := &failure{code: codes.Code(uint32(wire.GetCode())), message: wire.GetMessage()}
	for _, detail := range status.FromProto(wire).Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.GetDomain() == facts.ErrorDomain {
				failed.reason = detail.GetReason()
			}
		case *errdetails.BadRequest:
			for _, violation := range detail.GetFieldViolations() {
				failed.violations = append(failed.violations,
					FieldViolation{Field: violation.GetField(), Rule: violation.GetDescription()})
			}
		case *errdetails.RetryInfo:
			failed.retryAfter = duration(detail.GetRetryDelay())
		}
	}
	return failed
}

func unavailable(message string) *failure { return &failure{code: codes.Unavailable, message: message} }

// isTransient reports whether a repetition may succeed. Then the call may have taken effect, if it was sent.
func (f *failure) isTransient() bool {
	if f.hopeless {
		return false
	}
	return f.code == codes.Unavailable || f.code == codes.DeadlineExceeded || f.code == codes.Canceled
}

// isFinalForSession reports whether a server that refuses a session with this error refuses the next one as well.
func (f *failure) isFinalForSession() bool {
	if f.hopeless {
		return true
	}
	switch f.code {
	case codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented, codes.InvalidArgument, codes.NotFound,
		codes.FailedPrecondition, codes.OutOfRange:
		return true
	default:
		return false
	}
}

// refused is the error of a call that had no effect.
func (f *failure) refused(name string) error {
	return &RefusedError{
		Name: name, Code: f.code, Reason: f.reason, Message: f.Error(), Violations: f.violations, RetryAfter: f.retryAfter,
	}
}

// retryPauses are the pauses between repetitions: doubling, with jitter, so that clients do not all repeat at once.
type retryPauses struct{ count int }

// next returns the next pause: at least what the server asks for.
func (b *retryPauses) next(asked time.Duration) time.Duration {
	full := time.Duration(min(facts.RetryFirstMS<<min(b.count, 10), facts.RetryMaxMS)) * time.Millisecond
	b.count++
	return max(full/2+randomPart(full/2), asked)
}

// randomPart returns a random part of a duration.
func randomPart(whole time.Duration) time.Duration {
	if whole <= 0 {
		return 0
	}
	return rand.N(whole)
}
