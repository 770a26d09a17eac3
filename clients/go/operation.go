package fencepost

import (
	"container/list"
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/internal/clock"
)

// An operation is one transmission of an acquire, a release or a renewal. It waits in the client's queue until the
// current session sends it. Then it belongs to that session until it is answered or the session ends.
type operation struct {
	// acquire is set if this is an acquire; otherwise lease is the lease to release or to renew.
	acquire *acquisition
	lease   *lease
	message *pb.SessionRequest

	// done is closed when answer or failure is set.
	done chan struct{}
	// position receives the number of requests ahead in the queue. It keeps the latest one only.
	position chan int

	// The following fields are guarded by the mutex of the client, until done is closed.

	queue   *list.List
	element *list.Element
	session *session
	number  uint64
	sent    clock.Moment
	// acknowledged is whether the server has said that the request waits.
	acknowledged bool
	// ignored is whether nobody wants the answer any more.
	ignored bool
	// handle is that of the lease: of an acquire, or of a release on the session that kept the lease.
	handle  uint32
	answer  *pb.SessionResponse
	granted *lease
	failure *failure
}

// An acquisition is what an acquire wants.
type acquisition struct {
	request *pb.AcquireRequest
	// waitUntil is when the wait ends.
	waitUntil clock.Moment
	waitMax   time.Duration
	onAtRisk  func()
	// firstDescription is the number of the first description of the lease; 0 if another process may have the request.
	firstDescription uint64
	// ctx gives its values to the context of the lock.
	ctx context.Context
}

func newOperation() *operation {
	return &operation{done: make(chan struct{}), position: make(chan int, 1)}
}

func acquireOperation(acquire *acquisition) *operation {
	op := newOperation()
	op.acquire = acquire
	return op
}

func releaseOperation(l *lease) *operation {
	op := newOperation()
	op.lease = l
	request := &pb.ReleaseRequest{LockName: l.name, LeaseId: l.id}
	op.message = &pb.SessionRequest{Message: &pb.SessionRequest_Release{Release: request}}
	return op
}

func renewOperation(l *lease) *operation {
	op := newOperation()
	op.lease = l
	request := &pb.RenewRequest{LockName: l.name, LeaseId: l.id}
	op.message = &pb.SessionRequest{Message: &pb.SessionRequest_Renew{Renew: request}}
	return op
}

func (op *operation) isRelease() bool { return op.message.GetRelease() != nil }

// moved records the queue position, in place of one that was not read yet.
func (op *operation) moved(ahead int) {
	op.acknowledged = true
	select {
	case <-op.position:
	default:
	}
	op.position <- ahead
}

// prepare makes the message of an acquire, with the time that is left to wait.
func (op *operation) prepare(now clock.Moment, handle uint32) {
	wait := min(max(op.acquire.waitUntil.Sub(now), 0), op.acquire.waitMax)
	op.acquire.request.WaitTimeout = durationpb.New(wait)
	op.handle = handle
	acquire := &pb.SessionAcquire{Request: op.acquire.request, Handle: handle}
	op.message = &pb.SessionRequest{Message: &pb.SessionRequest_Acquire{Acquire: acquire}}
}

// answerBy is when the answer, or the acknowledgement of a wait, is overdue. answerTime is that of one server.
func (op *operation) answerBy(answerTime time.Duration) clock.Moment {
	if op.acknowledged {
		return op.sent.Add(duration(op.acquire.request.GetWaitTimeout()) + callTimeout)
	}
	if op.session.lastReceived < op.sent {
		return op.sent.Add(min(silenceMax, answerTime))
	}
	return op.sent.Add(answerTime)
}

// finish ends an operation with an answer or a failure.
func (op *operation) finish(answer *pb.SessionResponse, failed *failure) {
	op.answer, op.failure = answer, failed
	close(op.done)
}

// A pendingQueue has the operations that no session has sent yet.
type pendingQueue struct {
	// prompt are releases and renewals. They go before acquires, since existing leases have priority and a waiting
	// acquire may wait for a release.
	prompt, acquires list.List
}

func (q *pendingQueue) len() int { return q.prompt.Len() + q.acquires.Len() }

func (q *pendingQueue) add(op *operation) {
	op.queue = &q.prompt
	if op.acquire != nil {
		op.queue = &q.acquires
	}
	op.element = op.queue.PushBack(op)
}

// remove takes out an operation, and reports whether it was in the queue.
func (q *pendingQueue) remove(op *operation) bool {
	if op.element == nil {
		return false
	}
	op.queue.Remove(op.element)
	op.element = nil
	return true
}

// take takes out the first operation of one of the lists; nil if it is empty.
func (q *pendingQueue) take(from *list.List) *operation {
	first := from.Front()
	if first == nil {
		return nil
	}
	op := from.Remove(first).(*operation) //nolint:errcheck,forcetypeassert // the list has nothing else
	op.element = nil
	return op
}

// drain takes out everything.
func (q *pendingQueue) drain() []*operation {
	var all []*operation
	for _, from := range []*list.List{&q.prompt, &q.acquires} {
		for op := q.take(from); op != nil; op = q.take(from) {
			all = append(all, op)
		}
	}
	return all
}
