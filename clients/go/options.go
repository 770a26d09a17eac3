package fencepost

import (
	"fmt"
	"maps"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/internal/facts"
)

const (
	// waitMax is the longest wait that is asked for on behalf of an acquire without a bound.
	waitMax = facts.WaitMaxMS * time.Millisecond
	// waitMin is below the longest wait of any server.
	waitMin = 10 * time.Millisecond
	// requestBytes is the maximum size of a request on a session: the envelope takes at most 32 bytes of a message.
	requestBytes = facts.RequestBytesMax - 32
)

// An AcquireOption is a setting of one acquire.
type AcquireOption func(*acquireOptions)

type acquireOptions struct {
	ttl        *time.Duration
	wait       time.Duration
	untilDone  bool
	holder     string
	owner      string
	metadata   map[string]string
	requestID  string
	minToken   uint64
	maxHold    *time.Duration
	minHold    time.Duration
	lockDelay  time.Duration
	shared     bool
	alsoShared []string
	semaphore  *uint32
	permits    uint32
	version    uint64
	maxWaiters uint32
	onAtRisk   func()
	onPosition func(int)
	// onOverQuota is told of each refusal by a quota that is repeated.
	onOverQuota func(error)
	// tellWhenWanted is whether [Lock.Wanted] is to be told.
	tellWhenWanted bool
}

// WithTTL sets how long the lease lasts without a renewal: 1 s to 24 h, unless the server is configured otherwise.
// Without it the server decides: 30 s, unless it is configured otherwise. The lock of a process that dies is free after
// this time. Choose at least three times the longest pause that the holder has to survive.
func WithTTL(ttl time.Duration) AcquireOption { return func(o *acquireOptions) { o.ttl = &ttl } }

// WithWait sets how long to wait in the queue if the lock is held: from 0, which does not wait and is the default, to
// 1 h, unless the server is configured otherwise. The wait also ends shortly before the deadline of the context.
func WithWait(wait time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.wait, o.untilDone = wait, false }
}

// WithWaitUntilDone waits in the queue until the context is done, in place of [WithWait]. A context that never is done
// waits without a bound, except that the acquire gives up when no server has answered for 10 s. When the longest wait
// that the server allows is over (1 h, unless it is configured otherwise), the request joins the end of the queue again.
func WithWaitUntilDone() AcquireOption {
	return func(o *acquireOptions) { o.wait, o.untilDone = 0, true }
}

// WithHolder sets the label that others see as the holder, at most 256 bytes, in place of the client's.
func WithHolder(label string) AcquireOption { return func(o *acquireOptions) { o.holder = label } }

// WithOwner sets a label of what acquires locks one after another, and waits for one while it holds others: a worker, a
// job, a transaction; at most 128 bytes. Others see it beside the holder. Requests with one owner that wait for each
// other are a deadlock, which "fencepost deadlocks" finds. All servers have to know it, as with [WithMaxHold].
func WithOwner(owner string) AcquireOption { return func(o *acquireOptions) { o.owner = owner } }

// WithMetadata adds metadata that is shown with the holder: at most 4 KiB for all keys and values.
func WithMetadata(metadata map[string]string) AcquireOption {
	return func(o *acquireOptions) {
		if o.metadata == nil {
			o.metadata = map[string]string{}
		}
		maps.Copy(o.metadata, metadata)
	}
}

// WithRequestID sets the request id, a UUID; a random one by default. An id belongs to one lock name and one acquire:
// anybody who knows it can get the lease. An acquire with its own id fails with reason REQUEST_ENDED if the servers
// gave up its queue position while they could not hear from it; one without joins the queue again.
func WithRequestID(id string) AcquireOption { return func(o *acquireOptions) { o.requestID = id } }

// WithMinToken sets the lowest acceptable token. If the store that the lock protects has seen a higher token than the
// server grants, because one of them was restored from an old backup, pass the store's highest token + 1. Locks share
// counters, so this raises the tokens of other locks too: ask for no more than you need.
func WithMinToken(token uint64) AcquireOption { return func(o *acquireOptions) { o.minToken = token } }

// WithMaxHold sets the longest time to hold the lock, with all renewals: at least the TTL, at most 7 days. It bounds
// work that is stuck while its process goes on renewing: when it is over, the lock is lost with [LossMaxHold]. By
// default there is no bound.
func WithMaxHold(maxHold time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.maxHold = &maxHold }
}

// WithMinHold keeps the lock unavailable until so long after its grant, however the lease ends, release included: at
// most 24 h; by default, and with 0, not at all. It is for jobs that many machines start at one time by clocks that
// differ: the first one runs the job, and the others find the lock unavailable although it took 10 ms. Choose more than
// the clocks may differ, and less than the time between two starts. A lock that [Client.AcquireAll] or [Client.TryAll]
// gives back was granted, too. With [WithShared] it is the place of the reader that stays unavailable, which keeps out
// writers; with [WithSemaphore] the permits and the slot.
func WithMinHold(minHold time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.minHold = minHold }
}

// WithLockDelay keeps the lock unavailable for so long after the end of its lease if the holder did not release it: at
// most 60 s; by default, and with 0, not at all. It is for stores that cannot compare tokens, in which a holder that
// has lost its lease may still be writing. [Lock.Release] after the loss ends it: the old holder has stopped.
func WithLockDelay(lockDelay time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.lockDelay = lockDelay }
}

// WithShared shares the lock with all others that ask for it so (readers), and excludes only those that do not
// (writers). A reader never overtakes a writer that waits: a task that holds the lock and asks for it once more while a
// writer waits, waits for itself until its wait is over. Tokens rise with each grant, of readers too: readers that
// write next to each other must not be compared by the plain guards. All servers have to know it, as with
// [WithMaxHold]. Not in [Client.Lead], and not in [Client.AcquireAll] and [Client.TryAll], which have
// [WithSharedNames].
func WithShared() AcquireOption { return func(o *acquireOptions) { o.shared = true } }

// WithSharedNames adds locks to those of [Client.AcquireAll], [Client.TryAll] and [Client.DoAll], which are shared as
// by [WithShared] while the others are exclusive. For hierarchies: share the parents, and lock the leaf. They are
// acquired in one order with the others. A name that is given for both modes is refused.
func WithSharedNames(names ...string) AcquireOption {
	return func(o *acquireOptions) {
		o.alsoShared = append(o.alsoShared[:len(o.alsoShared):len(o.alsoShared)], names...)
	}
}

// WithSemaphore takes a permit of a semaphore, of which all holders together use no more than limit: 1 to 1,000,000.
// Nobody else holds the lock beside them, and requests are served in the order in which they came. A lock with one
// permit has a [Lock.Slot], which no other holder has. Holders work side by side, so no store can order them by their
// tokens; those of one slot it can. Not with [WithShared], and not in [Client.AcquireAll], [Client.TryAll] and
// [Client.Lead]. All servers have to know it, as with [WithMaxHold].
//
// Each request names the limit. To change it, give the new one a higher [WithPermitLimitVersion]: a request with
// another limit of the same version is refused with a [*RefusedError] (PERMIT_LIMIT_MISMATCH).
func WithSemaphore(limit uint32) AcquireOption {
	return func(o *acquireOptions) { o.semaphore = &limit }
}

// WithPermits sets how many permits the lock takes, at most the limit of [WithSemaphore]: by default 1.
// They are given back together. Ask for few: permits stay unused until there are enough for the request that is next.
func WithPermits(permits uint32) AcquireOption {
	return func(o *acquireOptions) { o.permits = permits }
}

// WithPermitLimitVersion sets the version of the limit of [WithSemaphore]; 0 by default. The highest one that a request
// has named is in force for as long as the semaphore is held or waited for. Raise it with each change of the limit.
func WithPermitLimitVersion(version uint64) AcquireOption {
	return func(o *acquireOptions) { o.version = version }
}

// WithMaxWaiters sets how many requests may wait already: with so many, the acquire returns a [*ContendedError] at once
// in place of waiting. For work that need not be done twice, such as a build that the next one replaces. By default,
// and with 0, there is no bound but that of the server. All servers have to know it, as with [WithMaxHold].
func WithMaxWaiters(count uint32) AcquireOption {
	return func(o *acquireOptions) { o.maxWaiters = count }
}

// WithOnAtRisk sets a function that is called, on a goroutine of its own, each time that renewals begin to fail. The
// lock is still held, and not lost if a renewal succeeds in time.
func WithOnAtRisk(call func()) AcquireOption { return func(o *acquireOptions) { o.onAtRisk = call } }

// WithOnQueuePosition sets a function that is called by the waiting Acquire with the number of requests ahead in the
// queue: when it joins the queue and when it moves up, at most once a second. The number is an upper bound, since
// requests that have left may still be counted.
func WithOnQueuePosition(call func(ahead int)) AcquireOption {
	return func(o *acquireOptions) { o.onPosition = call }
}

// request makes the request. It checks what would make a message invalid as a whole: the server would end the session,
// and with it the operations of others. All other rules are the server's.
func (o *acquireOptions) request(name, holder string) (*pb.AcquireRequest, error) {
	if o.wait < 0 {
		return nil, invalid(name, "wait_timeout", fmt.Sprintf("must be 0s to 1h; it is %v", o.wait))
	}
	if o.maxHold != nil && *o.maxHold <= 0 {
		// To the server, 0 is no bound at all.
		return nil, invalid(name, "max_hold", fmt.Sprintf("must be at least the TTL, at most 168h; it is %v", *o.maxHold))
	}
	if err := o.checkMode(name); err != nil {
		return nil, err
	}
	request := &pb.AcquireRequest{
		LockName:  name,
		Holder:    fallback(o.holder, holder),
		RequestId: fallback(o.requestID, uuid.NewString()),
		Metadata:  o.metadata,
		MinToken:  o.minToken,
		// Servers of earlier versions know none of these: what is not asked for is not sent.
		Owner:          o.owner,
		MaxWaiters:     o.maxWaiters,
		TellWhenWanted: o.tellWhenWanted,
	}
	if o.ttl != nil {
		request.Ttl = durationpb.New(*o.ttl)
	}
	if o.maxHold != nil {
		request.MaxHold = durationpb.New(*o.maxHold)
	}
	if o.minHold != 0 {
		request.MinHold = durationpb.New(o.minHold)
	}
	if o.lockDelay != 0 {
		request.LockDelay = durationpb.New(o.lockDelay)
	}
	if o.shared {
		request.Mode = pb.LockMode_LOCK_MODE_SHARED
	}
	if o.semaphore != nil {
		request.Mode, request.PermitLimit = pb.LockMode_LOCK_MODE_SEMAPHORE, *o.semaphore
		request.Permits, request.PermitLimitVersion = max(o.permits, 1), o.version
	}
	if err := checkTexts(name, request.GetRequestId(), request.GetHolder(), o.metadata); err != nil {
		return nil, err
	}
	if err := checkUTF8(name, "owner", o.owner); err != nil {
		return nil, err
	}
	if size := proto.Size(request); size > requestBytes {
		return nil, invalid(name, "", fmt.Sprintf("the request has %d bytes, the maximum is %d: shorten its fields", size,
			requestBytes))
	}
	return request, nil
}

// checkMode checks that the options ask for one mode.
func (o *acquireOptions) checkMode(name string) error {
	switch {
	case len(o.alsoShared) > 0:
		return invalid(name, "names", "are those of several locks: WithSharedNames is for AcquireAll, TryAll and DoAll")
	case o.semaphore != nil && o.shared:
		return invalid(name, "mode", "cannot be both SHARED and SEMAPHORE")
	case o.semaphore == nil && o.permits != 0:
		return invalid(name, "permits", "must be 0 unless the mode is SEMAPHORE: use WithSemaphore")
	case o.semaphore == nil && o.version != 0:
		return invalid(name, "permit_limit_version", "must be 0 unless the mode is SEMAPHORE: use WithSemaphore")
	}
	return nil
}

// modeName is the mode of the options, if it is not exclusive.
func (o *acquireOptions) modeName() string {
	switch {
	case o.semaphore != nil:
		return "SEMAPHORE"
	case o.shared:
		return "SHARED"
	}
	return ""
}

// checkTexts checks that the texts of a request are valid UTF-8.
func checkTexts(name, requestID, holder string, metadata map[string]string) error {
	texts := map[string]string{"lock_name": name, "holder": holder, "request_id": requestID}
	for key, value := range metadata {
		texts["metadata"] += key + value
	}
	for field, text := range texts {
		if err := checkUTF8(name, field, text); err != nil {
			return err
		}
	}
	return nil
}

// checkUTF8 checks a text that has to be valid UTF-8: protobuf cannot send another one.
func checkUTF8(name, field, text string) error {
	if !utf8.ValidString(text) {
		return invalid(name, field, fmt.Sprintf("must be valid UTF-8; it is %.60q", text))
	}
	return nil
}

func invalid(name, field, rule string) error {
	refused := &RefusedError{Name: name, Code: codes.InvalidArgument, Reason: "INVALID_FIELD", Message: rule}
	if field != "" {
		refused.Message = field + " " + rule
		refused.Violations = []FieldViolation{{Field: field, Rule: rule}}
	}
	return refused
}
