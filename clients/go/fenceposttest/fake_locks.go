package fenceposttest

import (
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/internal/facts"
)

// placeKept is how long the queue position of a broken session is kept for a repetition of its request, as on a real
// server.
const placeKept = 3 * time.Second

// fakeLocks are the locks of a fake server. Its mutex is held in all functions of this file.
type fakeLocks struct {
	after  func(time.Duration, func()) *time.Timer
	report func(*pb.WatchResponse)

	byName map[string]*fakeLock
	// byID has all grants ever, by the id of the lease, and byRequest by the name of the lock and the request id.
	byID      map[string]*fakeGrant
	byRequest map[[2]string]*fakeGrant
	token     uint64
}

type fakeLock struct {
	name        string
	current     *fakeGrant
	queue       []*fakeWaiter
	newest      uint64
	previousEnd pb.LeaseEnd
}

// A fakeGrant is a lease.
type fakeGrant struct {
	lock        *fakeLock
	request     *pb.AcquireRequest
	id, public  string
	token       uint64
	ttl         time.Duration
	since       time.Time
	until       time.Time
	previousEnd pb.LeaseEnd
	// end is UNSPECIFIED while it lasts.
	end pb.LeaseEnd
	// session renews it, under a handle; nil if none does. attempt is the number of the attachment.
	session *fakeSession
	handle  uint32
	attempt uint32
}

// A fakeWaiter is an acquire that has no answer yet.
type fakeWaiter struct {
	request   *pb.AcquireRequest
	operation uint64
	handle    uint32
	arrived   time.Time
	// session is nil if it has ended and the position is kept.
	session *fakeSession
	timer   *time.Timer
}

func newFakeLocks(after func(time.Duration, func()) *time.Timer, report func(*pb.WatchResponse)) fakeLocks {
	return fakeLocks{
		after: after, report: report,
		byName: map[string]*fakeLock{}, byID: map[string]*fakeGrant{}, byRequest: map[[2]string]*fakeGrant{},
	}
}

func (l *fakeLocks) lock(name string) *fakeLock {
	if l.byName[name] == nil {
		l.byName[name] = &fakeLock{name: name}
	}
	return l.byName[name]
}

func requestKey(request *pb.AcquireRequest) [2]string {
	return [2]string{request.GetLockName(), request.GetRequestId()}
}

// acquire answers a request, or queues it.
func (l *fakeLocks) acquire(w *fakeWaiter) {
	lock := l.lock(w.request.GetLockName())
	if known := l.byRequest[requestKey(w.request)]; known != nil {
		switch {
		case w.request.GetAttempt() < known.request.GetAttempt():
			w.refuse("OVERTAKEN")
		case known.end != pb.LeaseEnd_LEASE_END_UNSPECIFIED:
			w.refuse("REQUEST_ENDED")
		default:
			known.request, known.attempt = w.request, 1
			w.granted(known)
		}
		return
	}
	isSame := func(other *fakeWaiter) bool { return requestKey(other.request) == requestKey(w.request) }
	if place := slices.IndexFunc(lock.queue, isSame); place < 0 {
		lock.queue = append(lock.queue, w)
	} else {
		before := lock.queue[place]
		if w.request.GetAttempt() < before.request.GetAttempt() {
			w.refuse("OVERTAKEN")
			return
		}
		before.timer.Stop()
		lock.queue[place] = w
		if before.session != nil {
			before.refuse("OVERTAKEN")
		}
	}
	wait := w.request.GetWaitTimeout().AsDuration()
	w.timer = l.after(wait, func() { l.withdraw(w, pb.AcquireResponse_OUTCOME_TIMED_OUT) })
	w.session.waiting[w.operation] = w
	l.serve(lock)
	place := slices.Index(lock.queue, w)
	switch {
	case place < 0:
	case wait <= 0:
		l.withdraw(w, pb.AcquireResponse_OUTCOME_CONTENDED)
	default:
		w.session.send(&pb.SessionResponse{
			Operation: w.operation,
			Message:   &pb.SessionResponse_Waiting{Waiting: &pb.Waiting{Ahead: uint32(place)}},
		})
	}
}

// serve grants a free lock to the first who waits.
func (l *fakeLocks) serve(lock *fakeLock) {
	if lock.current != nil {
		return
	}
	isPresent := func(w *fakeWaiter) bool { return w.session != nil }
	place := slices.IndexFunc(lock.queue, isPresent)
	if place < 0 {
		return
	}
	next := lock.queue[place]
	lock.queue = slices.Delete(lock.queue, place, place+1)
	next.timer.Stop()
	request, now := next.request, time.Now()
	ttl := request.GetTtl().AsDuration()
	if ttl <= 0 {
		ttl = facts.DefaultTTLMS * time.Millisecond
	}
	l.token = max(l.token+1, request.GetMinToken())
	granted := &fakeGrant{
		lock: lock, request: request, id: uuid.NewString(), public: uuid.NewString(), token: l.token,
		ttl: ttl, since: now, until: now.Add(ttl), previousEnd: lock.previousEnd, attempt: 1,
	}
	lock.current, lock.newest = granted, granted.token
	l.byID[granted.id], l.byRequest[requestKey(request)] = granted, granted
	l.expireLater(granted, ttl)
	l.report(granted.event(pb.WatchResponse_KIND_GRANTED))
	next.granted(granted)
}

func (l *fakeLocks) expireLater(held *fakeGrant, left time.Duration) {
	l.after(left, func() {
		if held.end != pb.LeaseEnd_LEASE_END_UNSPECIFIED {
			return
		}
		if left := time.Until(held.until); left > 0 {
			l.expireLater(held, left)
			return
		}
		l.lose(held, pb.LeaseEnd_LEASE_END_EXPIRED)
	})
}

// lose ends a lease without its holder, who is told.
func (l *fakeLocks) lose(held *fakeGrant, end pb.LeaseEnd) {
	l.end(held, end)
	l.serve(held.lock)
	if session := held.session; session != nil {
		session.detach(held)
		session.lost(held.handle, held, held.lock.successor())
	}
}

// end ends a lease. Serve the lock afterwards.
func (l *fakeLocks) end(held *fakeGrant, end pb.LeaseEnd) {
	held.end, held.lock.previousEnd, held.lock.current = end, end, nil
	kinds := map[pb.LeaseEnd]pb.WatchResponse_Kind{
		pb.LeaseEnd_LEASE_END_RELEASED: pb.WatchResponse_KIND_RELEASED,
		pb.LeaseEnd_LEASE_END_EXPIRED:  pb.WatchResponse_KIND_EXPIRED,
		pb.LeaseEnd_LEASE_END_REVOKED:  pb.WatchResponse_KIND_REVOKED,
	}
	l.report(held.event(kinds[end]))
}

// withdraw ends a wait, if the request still waits.
func (l *fakeLocks) withdraw(w *fakeWaiter, outcome pb.AcquireResponse_Outcome) {
	lock := l.lock(w.request.GetLockName())
	place := slices.Index(lock.queue, w)
	if place < 0 {
		return
	}
	lock.queue = slices.Delete(lock.queue, place, place+1)
	w.timer.Stop()
	if w.session != nil {
		info := lock.info()
		w.answer(&pb.AcquireResponse{Outcome: outcome, Holders: info.GetHolders(), Waiters: info.GetWaiters()})
	}
}

// leave keeps the position of a request whose session has ended, for a while.
func (l *fakeLocks) leave(w *fakeWaiter) {
	w.session = nil
	w.timer.Stop()
	w.timer = l.after(placeKept, func() { l.withdraw(w, pb.AcquireResponse_OUTCOME_TIMED_OUT) })
}

// successor is the token of the current lease; 0 if there is none.
func (l *fakeLock) successor() uint64 {
	if l.current == nil {
		return 0
	}
	return l.current.token
}

func (l *fakeLock) info() *pb.LockInfo {
	info := &pb.LockInfo{
		LockName: l.name, Waiters: uint32(len(l.queue)), PreviousEnd: l.previousEnd, NewestToken: l.newest,
	}
	if held := l.current; held != nil {
		info.Holders = []*pb.LockHolder{{
			Holder:       held.request.GetHolder(),
			GrantId:      held.public,
			FencingToken: held.token,
			Ttl:          durationpb.New(held.ttl),
			ExpiresIn:    durationpb.New(max(time.Until(held.until), 0)),
			HeldSince:    durationpb.New(time.Since(held.since)),
			Metadata:     held.request.GetMetadata(),
		}}
	}
	return info
}

func (g *fakeGrant) renew() { g.until = time.Now().Add(g.ttl) }

func (g *fakeGrant) event(kind pb.WatchResponse_Kind) *pb.WatchResponse {
	return &pb.WatchResponse{
		Kind: kind, LockName: g.lock.name, Holder: g.request.GetHolder(), GrantId: g.public, FencingToken: g.token,
	}
}
