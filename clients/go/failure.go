package fencepost

import (
	"fmt"
	"math/rand/v2"
	"slices"
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
	// found is what is wrong with a server that has not answered; nil if it has.
	found *finding
	// unsent is whether the transmission never left this process.
	unsent bool
	// hopeless is whether no server can be reached before somebody changes an address, a certificate or a server.
	hopeless bool
	// noRoom is whether a server had no room for the stream, and has read nothing of it.
	noRoom bool
	// earlier is what a server answered to an earlier transmission, if this one got no answer.
	earlier *failure
}

// nothingDone are the reasons of transient errors with which a server says that it did nothing.
var nothingDone = []string{"STORE_UNAVAILABLE", "STORE_OVERLOADED", "TOO_LATE", "REQUEST_TOO_SLOW", "DRAINING"}

// noRoomReasons are those with which a server refuses a stream that it may open later.
var noRoomReasons = []string{"QUOTA_EXCEEDED", "SERVER_FULL", "WATCHERS_FULL"}

func (f *failure) Error() string {
	if f.earlier != nil {
		return f.text() + "; " + f.earlier.answer().Error()
	}
	return f.text()
}

// Unwrap returns what a server answered to an earlier transmission, which is not the outcome.
func (f *failure) Unwrap() error {
	if f.earlier == nil {
		return nil
	}
	return f.earlier.answer()
}

// answer is this as a part of the error of a call of which a later transmission got no answer.
func (f *failure) answer() *AnswerError {
	return &AnswerError{Code: f.code, Reason: f.reason, Message: f.message}
}

// after is the same failure, of a call of which an earlier transmission was answered so, if that is known.
func (f *failure) after(answer *failure) *failure {
	if answer == nil || f.reason != "" {
		return f
	}
	told := *f
	told.earlier = answer
	return &told
}

// isAnswer reports whether a server answered that a repetition may succeed. A broken connection has no reason.
func (f *failure) isAnswer() bool { return f.reason != "" && f.isTransient() }

// withAnswer is an error that is not a failure, with what a server answered before it, if that is known.
func withAnswer(err error, answer *failure) error {
	if answer == nil {
		return err
	}
	return fmt.Errorf("%w; %w", err, answer.answer())
}

func (f *failure) text() string {
	switch {
	case f.message == "":
		return f.code.String()
	case f.reason != "":
		return f.message + " (" + f.reason + ")"
	default:
		return f.message
	}
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

// unknownAnswer is an answer that this version does not know.
func unknownAnswer(call string) *failure {
	return &failure{code: codes.Internal, message: "the server answered " + call + " with an unknown message"}
}

// isTransient reports whether a repetition may succeed.
func (f *failure) isTransient() bool {
	switch f.code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return !f.hopeless
	case codes.Unimplemented:
		// Another server may be the right one.
		return f.found != nil && !f.hopeless
	case codes.ResourceExhausted:
		return f.noRoom
	default:
		return false
	}
}

// ofStream is the same failure, of a stream on which nothing has arrived.
func (f *failure) ofStream() *failure {
	if f.code != codes.ResourceExhausted || !slices.Contains(noRoomReasons, f.reason) {
		return f
	}
	refused := *f
	refused.noRoom, refused.unsent = true, true
	return &refused
}

// isOverQuota reports whether the quota of the caller is used up. Each server has as much: another one is no help.
func (f *failure) isOverQuota() bool {
	return f.code == codes.ResourceExhausted && f.reason == "QUOTA_EXCEEDED"
}

// mayHaveEffect reports whether the call may have taken effect.
func (f *failure) mayHaveEffect() bool {
	return f.isTransient() && !f.unsent && f.code != codes.Unimplemented && !slices.Contains(nothingDone, f.reason)
}

// isFinalForSession reports whether a server that refuses a session with this error refuses the next one as well.
func (f *failure) isFinalForSession() bool {
	return f.hopeless || isFinal(f.code)
}

// isFinal reports whether what is refused with this code is refused again, until somebody changes something.
func isFinal(code codes.Code) bool {
	switch code {
	case codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented, codes.InvalidArgument, codes.NotFound,
		codes.FailedPrecondition, codes.OutOfRange:
		return true
	default:
		return false
	}
}

// violates reports whether a field of the request breaks a rule.
func (f *failure) violates(field string) bool {
	return slices.ContainsFunc(f.violations, func(v FieldViolation) bool { return v.Field == field })
}

// public is the error of a call that had no effect.
func (f *failure) public(name string) error {
	if f.isTransient() && !f.noRoom || f.code == codes.Unavailable {
		return &UnavailableError{
			Name: name, Reason: f.reason, Message: f.Error(), RetryAfter: f.retryAfter, answer: f.Unwrap(),
			hopeless: f.hopeless,
		}
	}
	message := f.message
	if message == "" {
		message = f.code.String()
	}
	return &RefusedError{
		Name: name, Code: f.code, Reason: f.reason, Message: message, Violations: f.violations, RetryAfter: f.retryAfter,
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
