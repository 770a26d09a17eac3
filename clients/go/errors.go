package fencepost

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fencepost/fencepost-go/internal/facts"
)

// Errors to compare with by [errors.Is]. The errors that the client returns have types of their own, which say more.
var (
	// ErrContended matches a [*ContendedError]: the lock is held or unavailable, and the call did not wait, or too many
	// wait already.
	ErrContended = errors.New("fencepost: the lock is held")
	// ErrTimedOut matches a [*TimedOutError]: the wait ended without a grant.
	ErrTimedOut = errors.New("fencepost: the wait ended without a grant")
	// ErrLost matches a [*LostError]: the lock is no longer held.
	ErrLost = errors.New("fencepost: the lock is lost")
	// ErrOutcomeUnknown matches an [*OutcomeUnknownError]: the call may or may not have taken effect.
	ErrOutcomeUnknown = errors.New("fencepost: the outcome is unknown")
	// ErrUnavailable matches an [*UnavailableError]: nothing was done, and a later call may succeed.
	ErrUnavailable = errors.New("fencepost: unavailable")
	// ErrRefused matches a [*RefusedError]: the server refused the call. Correct the request or the configuration.
	ErrRefused = errors.New("fencepost: refused")
	// ErrReleased is the cause of the end of [Lock.Context] after [Lock.Release].
	ErrReleased = errors.New("fencepost: the lock was released")
	// ErrClosed says that [Client.Close] was called.
	ErrClosed = errors.New("fencepost: the client is closed")
)

// A ContendedError says that a lock is held, or unavailable because of the delay after its last lease, and that the
// call did not wait for it, or that as many wait as [WithMaxWaiters] allows. It matches [ErrContended].
type ContendedError struct {
	// Name is the name of the lock.
	Name string
	// Holders are the holders: one, or the oldest of those that hold the lock together, at most 8. None while the lock is
	// being offered to the next waiter, or if a Delay alone keeps it.
	Holders []LockHolder
	// HolderCount is how many holders the lock has in all.
	HolderCount int
	// Semaphore has the permits, if the lock is held as a semaphore; otherwise nil.
	Semaphore *Semaphore
	// Delay says why nobody gets the lock, if nobody holds it, or why a place of it is not free beside the Holders; nil if
	// there is no delay.
	Delay *LockDelay
	// Waiters is the number of waiting requests.
	Waiters int
}

func (e *ContendedError) Error() string {
	return fmt.Sprintf("fencepost: %s is %s", e.Name, describe(e.Holders, e.HolderCount, e.Delay, e.Waiters))
}

// Is reports whether target is [ErrContended].
func (e *ContendedError) Is(target error) bool { return target == ErrContended }

// A TimedOutError says that a wait ended without a grant. It matches [ErrTimedOut], and [context.DeadlineExceeded] if
// the deadline of the context ended the wait.
type TimedOutError struct {
	// Name is the name of the lock.
	Name string
	// Holders are the holders: one, or the oldest of those that hold the lock together, at most 8. None while the lock is
	// being offered to the next waiter, or if a Delay alone keeps it.
	Holders []LockHolder
	// HolderCount is how many holders the lock has in all.
	HolderCount int
	// Semaphore has the permits, if the lock is held as a semaphore; otherwise nil.
	Semaphore *Semaphore
	// Delay says why nobody gets the lock, if nobody holds it, or why a place of it is not free beside the Holders; nil if
	// there is no delay.
	Delay *LockDelay
	// Waiters is the number of other waiting requests.
	Waiters int

	byContext bool
}

func (e *TimedOutError) Error() string {
	state := describe(e.Holders, e.HolderCount, e.Delay, e.Waiters)
	return fmt.Sprintf("fencepost: timed out waiting for %s: it is %s", e.Name, state)
}

// Is reports whether target is [ErrTimedOut].
func (e *TimedOutError) Is(target error) bool {
	return target == ErrTimedOut || e.byContext && target == context.DeadlineExceeded
}

// describe says why a lock is not free, and how many wait. It follows "is".
func describe(holders []LockHolder, count int, delay *LockDelay, waiters int) string {
	var states []string
	if len(holders) > 0 {
		states = append(states, held(holders, count))
	}
	if delay != nil {
		after := delay.Holder
		if after == "" {
			after = "its last lease"
		}
		left := delay.Remaining.Round(time.Millisecond)
		states = append(states, fmt.Sprintf("unavailable for another %v (delay after %s)", left, after))
	}
	if len(states) == 0 {
		states = []string{"being offered to the next waiter"}
	}
	return fmt.Sprintf("%s, %d waiting", strings.Join(states, ", and a place of it is "), waiters)
}

// held names the holders that have a label, and counts all others: those without one, and those that are not shown.
func held(holders []LockHolder, count int) string {
	named := make([]string, 0, len(holders)+1)
	for _, holder := range holders {
		if holder.Holder != "" {
			named = append(named, holder.Holder)
		}
	}
	more := count - len(named)
	switch {
	case len(named) == 0 && more > 1:
		return fmt.Sprintf("held by %d holders", more)
	case len(named) == 0:
		return "held"
	case more > 0:
		named = append(named, fmt.Sprintf("%d more", more))
	}
	return "held by " + strings.Join(named, " and ")
}

// A NotAllAcquiredError says that several locks were asked for together, and that one of them was not acquired, or was
// lost before the last one was. All others were given back. It wraps the error of that lock, so it matches what that
// matches.
type NotAllAcquiredError struct {
	// Count is the number of locks that were asked for.
	Count int
	// Name is the name of the lock that was not acquired, or that was lost.
	Name string
	// Cause is the error of [Client.Acquire], or a [*LostError].
	Cause error
	// GivenBack are the names of the locks that were acquired and given back, in this order. If no server has confirmed
	// that, the client goes on to release them in the background.
	GivenBack []string
}

func (e *NotAllAcquiredError) Error() string {
	back := "none was held"
	if len(e.GivenBack) > 0 {
		back = "given back: " + strings.Join(e.GivenBack, ", ")
	}
	cause := strings.TrimPrefix(e.Cause.Error(), "fencepost: ")
	return fmt.Sprintf("fencepost: the %d locks were not acquired, because of %s: %s; %s", e.Count, e.Name, cause, back)
}

// Unwrap returns the cause.
func (e *NotAllAcquiredError) Unwrap() error { return e.Cause }

// A LossReason says why a lock is no longer held.
type LossReason string

// The reasons for a loss.
const (
	// LossSilence: the validity ended by the local clock before a renewal succeeded. The servers were unreachable, or
	// this process was paused for too long.
	LossSilence LossReason = "silence"
	// LossMaxHold: the lock was held for as long as [WithMaxHold] allows.
	LossMaxHold LossReason = "max_hold"
	// LossExpired: the server reports that the TTL passed without a renewal.
	LossExpired LossReason = "expired"
	// LossRevoked: the server revoked the lease, for example because an operator forced its release.
	LossRevoked LossReason = "revoked"
	// LossSuperseded: the lease ended longer ago than the server remembers, and another one was granted since.
	LossSuperseded LossReason = "superseded"
	// LossUnknown: the server does not know the lease. It ended longer ago than the server remembers.
	LossUnknown LossReason = "unknown"
	// LossReleased: somebody else who knows the lease id released it.
	LossReleased LossReason = "released"
)

// A LostError says that a lock is no longer held: stop the work that it protects. It is the cause of the end of
// [Lock.Context], and matches [ErrLost].
type LostError struct {
	// Name is the name of the lock.
	Name string
	// Token is the fencing token of the lost lease.
	Token uint64
	// Reason says why it is lost.
	Reason LossReason
	// SuccessorToken is the token of the lease that holds the lock now; 0 if there is none or if it is not known.
	SuccessorToken uint64
}

func (e *LostError) Error() string {
	text := map[LossReason]string{
		LossSilence:    facts.LostSilence,
		LossMaxHold:    facts.LostMaxHold,
		LossExpired:    facts.LostExpired,
		LossRevoked:    facts.LostRevoked,
		LossSuperseded: facts.LostSuperseded,
		LossUnknown:    facts.LostUnknown,
		LossReleased:   facts.LostReleased,
	}[e.Reason]
	text = fmt.Sprintf("fencepost: %s (token %d) is lost: %s", e.Name, e.Token, text)
	if e.SuccessorToken != 0 {
		text += fmt.Sprintf("; token %d holds it now", e.SuccessorToken)
	}
	return text
}

// Is reports whether target is [ErrLost].
func (e *LostError) Is(target error) bool { return target == ErrLost }

// An OutcomeUnknownError says that no server answered in time whether a call took effect. After an Acquire, a cleanup
// in the background releases a lock that may have been granted; after a Release, the release is retried in the
// background until the lease has ended. It matches [ErrOutcomeUnknown].
type OutcomeUnknownError struct {
	// Name is the name of the lock.
	Name string
	// Cause is the error of the last transmission. If that got no answer, and an earlier one did, Cause tells that
	// answer, and wraps an [*AnswerError].
	Cause error
}

func (e *OutcomeUnknownError) Error() string {
	return "fencepost: outcome unknown: " + bare(e.Cause)
}

// Is reports whether target is [ErrOutcomeUnknown].
func (e *OutcomeUnknownError) Is(target error) bool { return target == ErrOutcomeUnknown }

// Unwrap returns the cause.
func (e *OutcomeUnknownError) Unwrap() error { return e.Cause }

// bare is the text of an error without the name of this package, to be part of another text.
func bare(err error) string { return strings.TrimPrefix(err.Error(), "fencepost: ") }

// An UnavailableError says that no server could be reached, or that each one that answered said that it did nothing, for
// example because it drains or its store is away. Nothing was done: try later. It matches [ErrUnavailable] and not
// [ErrRefused], and [google.golang.org/grpc/status.FromError] accepts it.
type UnavailableError struct {
	// Name is the name of the lock; empty for calls that concern none.
	Name string
	// Reason is the reason in the server's google.rpc.ErrorInfo, such as DRAINING; empty if no server answered.
	Reason string
	// Message says what is wrong, with the address of each server that was tried.
	Message string
	// RetryAfter is how long the server asks to wait before the call is repeated; 0 if it did not say.
	RetryAfter time.Duration

	answer error
	// hopeless is whether no repetition helps: each server is something else, or cannot be trusted.
	hopeless bool
}

func (e *UnavailableError) Error() string { return "fencepost: " + e.Message }

// Unwrap returns an [*AnswerError] if the last try got no answer, and an earlier one did. The message tells it as well.
func (e *UnavailableError) Unwrap() error { return e.answer }

// Is reports whether target is [ErrUnavailable].
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }

// GRPCStatus returns the code UNAVAILABLE and the message.
func (e *UnavailableError) GRPCStatus() *status.Status {
	return status.New(codes.Unavailable, e.Message)
}

// An AnswerError is what a server answered to an earlier try of a call whose last try got no answer. The error of the
// call tells it and wraps it. It is why the call was repeated, and not its outcome, so it matches neither
// [ErrUnavailable] nor [ErrRefused].
type AnswerError struct {
	// Code is the gRPC code.
	Code codes.Code
	// Reason is the reason in the server's google.rpc.ErrorInfo, such as STORE_UNAVAILABLE.
	Reason string
	// Message is the server's message.
	Message string
}

func (e *AnswerError) Error() string {
	said := fmt.Sprintf("%s (%s): %s", code.Code(e.Code), e.Reason, e.Message)
	return strings.Replace(facts.LastAnswer, "{}", said, 1)
}

// A FieldViolation names a field of a request and the rule that it breaks.
type FieldViolation struct {
	// Field is the path of the field in the API's request.
	Field string
	// Rule is the rule.
	Rule string
}

// A RefusedError says that a call was refused, by the server or before it was sent. Nothing was done, and the same call
// would be refused again: correct the request or the configuration. It matches [ErrRefused], and
// [google.golang.org/grpc/status.FromError] accepts it.
type RefusedError struct {
	// Name is the name of the lock; empty for calls that concern none.
	Name string
	// Code is the gRPC code.
	Code codes.Code
	// Reason is the reason in the server's google.rpc.ErrorInfo, such as QUEUE_FULL; empty if it gave none.
	Reason string
	// Message says what happened, why, and what to do.
	Message string
	// Violations are the fields that break a rule, with code INVALID_ARGUMENT.
	Violations []FieldViolation
	// RetryAfter is how long the server asks to wait before the call is repeated; 0 if it did not say.
	RetryAfter time.Duration
}

func (e *RefusedError) Error() string {
	if e.Reason == "" {
		return "fencepost: " + e.Message
	}
	return fmt.Sprintf("fencepost: %s (%s)", e.Message, e.Reason)
}

// Is reports whether target is [ErrRefused].
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// GRPCStatus returns the code and the message.
func (e *RefusedError) GRPCStatus() *status.Status { return status.New(e.Code, e.Message) }
