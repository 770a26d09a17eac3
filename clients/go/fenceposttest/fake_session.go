package fenceposttest

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/internal/facts"
)

// beatDivisor is the part of the shortest TTL that is the interval of beats, and beatMax its maximum, as on a real
// server.
const (
	beatDivisor = 9
	beatMax     = 10 * time.Second
)

// A fakeSession is one session of a fake server. The mutex of the server guards it.
type fakeSession struct {
	fake     *FakeServer
	outbox   fakeQueue[*pb.SessionResponse]
	attached map[uint32]*fakeGrant
	waiting  map[uint64]*fakeWaiter
	// beat is the number of the last beat, and beatQueued whether it is still to be sent.
	beat       uint64
	beatQueued bool
	// nextBeat is when the next beat is due; zero if none is.
	nextBeat time.Time
}

func (s fakeService) Session(stream grpc.BidiStreamingServer[pb.SessionRequest, pb.SessionResponse]) error {
	f := s.fake
	session := &fakeSession{fake: f, attached: map[uint32]*fakeGrant{}, waiting: map[uint64]*fakeWaiter{}}
	f.goroutines.Go(func() { session.read(stream) })
	for {
		response, more := take(f, &session.outbox, session.taken)
		if !more {
			return status.Error(codes.Unavailable, "the fake server has ended the connection")
		}
		if err := stream.Send(response); err != nil {
			return err // the reader ends the session
		}
	}
}

// read takes in what the client sends, until the stream ends.
func (s *fakeSession) read(stream grpc.BidiStreamingServer[pb.SessionRequest, pb.SessionResponse]) {
	for {
		request, err := stream.Recv()
		runs := err == nil && s.fake.running(func() {
			// What a client sent before it left is not done after a pause.
			if !s.outbox.closed && stream.Context().Err() == nil {
				s.received(request)
			}
		})
		if !runs {
			s.fake.mu.Lock()
			s.end()
			s.fake.mu.Unlock()
			return
		}
	}
}

// The mutex is held in all functions that follow.

// end ends the session. Leases stay, and so do, for a while, positions in queues.
func (s *fakeSession) end() {
	if s.outbox.closed {
		return
	}
	s.outbox.closed = true
	for _, held := range s.attached {
		s.detach(held)
	}
	for _, waiter := range s.waiting {
		s.fake.locks.leave(waiter)
	}
	s.fake.changed.Broadcast()
}

func (s *fakeSession) send(response *pb.SessionResponse) { put(s.fake, &s.outbox, response) }

// taken is called when a message is about to be sent.
func (s *fakeSession) taken(response *pb.SessionResponse) {
	if response.GetBeat() != nil {
		s.beatQueued = false
	}
}

// answer sends the answer to an operation, or drops it together with the connection.
func (s *fakeSession) answer(operation uint64, response *pb.SessionResponse) {
	if s.fake.drops > 0 && !s.outbox.closed {
		s.fake.drops--
		s.end()
		return
	}
	response.Operation = operation
	s.send(response)
}

func (s *fakeSession) received(request *pb.SessionRequest) {
	locks := &s.fake.locks
	switch message := request.GetMessage().(type) {
	case *pb.SessionRequest_Acquire:
		locks.acquire(&fakeWaiter{
			request: message.Acquire.GetRequest(), operation: request.GetOperation(), handle: message.Acquire.GetHandle(),
			arrived: time.Now(), session: s,
		})
	case *pb.SessionRequest_Release:
		s.release(request.GetOperation(), message.Release)
	case *pb.SessionRequest_Renew:
		s.renew(request.GetOperation(), message.Renew)
	case *pb.SessionRequest_Cancel:
		if waiter := s.waiting[message.Cancel.GetOperation()]; waiter != nil {
			locks.withdraw(waiter, pb.AcquireResponse_OUTCOME_TIMED_OUT)
		}
	case *pb.SessionRequest_Attach:
		for _, attachment := range message.Attach.GetLeases() {
			s.attachAgain(attachment)
		}
	case *pb.SessionRequest_Detach:
		for _, handle := range message.Detach.GetHandles() {
			if held := s.attached[handle]; held != nil {
				s.detach(held)
				held.attempt = 0
				s.detached(handle, pb.Detached_REASON_REQUESTED)
			}
		}
	case *pb.SessionRequest_Answer:
		s.renewAttached(message.Answer.GetBeat())
	}
}

func (s *fakeSession) release(operation uint64, request *pb.ReleaseRequest) {
	locks := &s.fake.locks
	answer := &pb.ReleaseResponse{End: pb.LeaseEnd_LEASE_END_UNKNOWN}
	held := locks.byID[request.GetLeaseId()]
	if held != nil {
		if held.end == pb.LeaseEnd_LEASE_END_UNSPECIFIED {
			if held.session != nil {
				held.session.detach(held)
			}
			locks.end(held, pb.LeaseEnd_LEASE_END_RELEASED)
		}
		answer.End = held.end
		if held.end != pb.LeaseEnd_LEASE_END_RELEASED {
			answer.SuccessorToken = held.lock.successor()
		}
	}
	s.answer(operation, &pb.SessionResponse{Message: &pb.SessionResponse_Release{Release: answer}})
	if held != nil {
		locks.serve(held.lock)
	}
}

func (s *fakeSession) renew(operation uint64, request *pb.RenewRequest) {
	answer := &pb.RenewResponse{Outcome: pb.RenewResponse_OUTCOME_LOST, End: pb.LeaseEnd_LEASE_END_UNKNOWN}
	if held := s.fake.locks.byID[request.GetLeaseId()]; held != nil {
		answer.End, answer.SuccessorToken = held.end, held.lock.successor()
		if held.end == pb.LeaseEnd_LEASE_END_UNSPECIFIED {
			if ttl := request.GetTtl(); ttl != nil {
				held.ttl = ttl.AsDuration()
			}
			held.renew()
			answer = &pb.RenewResponse{
				Outcome: pb.RenewResponse_OUTCOME_RENEWED, Ttl: durationpb.New(held.ttl), FencingToken: held.token,
			}
		}
	}
	s.answer(operation, &pb.SessionResponse{Message: &pb.SessionResponse_Renew{Renew: answer}})
}

func (s *fakeSession) attachAgain(attachment *pb.LeaseAttachment) {
	handle := attachment.GetHandle()
	held := s.fake.locks.byID[attachment.GetLeaseId()]
	switch {
	case held == nil || held.end != pb.LeaseEnd_LEASE_END_UNSPECIFIED:
		s.lost(handle, held, s.fake.locks.lock(attachment.GetLockName()).successor())
	case attachment.GetAttempt() < held.attempt:
		s.detached(handle, pb.Detached_REASON_ATTACHED_ELSEWHERE)
	default:
		held.attempt = attachment.GetAttempt()
		held.renew()
		s.attach(held, handle)
		s.send(&pb.SessionResponse{Message: &pb.SessionResponse_Attached{
			Attached: &pb.Attached{Leases: []*pb.RenewedLeases{held.renewed()}},
		}})
	}
}

// attach renews a lease on this session from now on.
func (s *fakeSession) attach(held *fakeGrant, handle uint32) {
	if before := held.session; before != nil {
		replaced := held.handle
		before.detach(held)
		if before != s || replaced != handle {
			before.detached(replaced, pb.Detached_REASON_ATTACHED_ELSEWHERE)
		}
	}
	held.session, held.handle = s, handle
	s.attached[handle] = held
	s.beatBy(time.Now().Add(min(held.ttl/beatDivisor, beatMax)))
}

func (s *fakeSession) detach(held *fakeGrant) {
	delete(s.attached, held.handle)
	held.session = nil
}

func (s *fakeSession) detached(handle uint32, reason pb.Detached_Reason) {
	s.send(&pb.SessionResponse{Message: &pb.SessionResponse_Detached{
		Detached: &pb.Detached{Handle: handle, Reason: reason},
	}})
}

// lost says how a lease has ended, which is nil if it is not known.
func (s *fakeSession) lost(handle uint32, held *fakeGrant, successor uint64) {
	lost := &pb.Lost{Handle: handle, End: pb.LeaseEnd_LEASE_END_UNKNOWN, SuccessorToken: successor}
	if held != nil {
		lost.End = held.end
	}
	s.send(&pb.SessionResponse{Message: &pb.SessionResponse_Lost{Lost: lost}})
}

// interval is the time between beats.
func (s *fakeSession) interval() time.Duration {
	interval := beatMax
	for _, held := range s.attached {
		interval = min(interval, held.ttl/beatDivisor)
	}
	return interval
}

// beatBy sends a beat at that time, unless one is due before.
func (s *fakeSession) beatBy(due time.Time) {
	if !s.nextBeat.IsZero() && !due.Before(s.nextBeat) {
		return
	}
	s.nextBeat = due
	s.fake.after(time.Until(due), func() {
		if s.outbox.closed || !s.nextBeat.Equal(due) {
			return
		}
		s.nextBeat = time.Time{}
		if len(s.attached) == 0 {
			return
		}
		interval := s.interval()
		if !s.beatQueued { // during a pause, only one
			s.beat++
			s.beatQueued = true
			s.send(&pb.SessionResponse{Message: &pb.SessionResponse_Beat{
				Beat: &pb.Beat{Beat: s.beat, NextIn: durationpb.New(interval)},
			}})
		}
		s.beatBy(time.Now().Add(interval))
	})
}

// renewAttached renews the leases that have used up a third of their TTL.
func (s *fakeSession) renewAttached(beat uint64) {
	renewed := &pb.Renewed{Beat: beat}
	for _, held := range s.attached {
		if time.Until(held.until) <= held.ttl/3*2 {
			held.renew()
			renewed.Leases = append(renewed.Leases, held.renewed())
		}
	}
	if len(renewed.GetLeases()) > 0 {
		s.send(&pb.SessionResponse{Message: &pb.SessionResponse_Renewed{Renewed: renewed}})
	}
}

// renewed is the lease in an answer that says that it was renewed.
func (g *fakeGrant) renewed() *pb.RenewedLeases {
	return &pb.RenewedLeases{Ttl: durationpb.New(g.ttl), Handles: []uint32{g.handle}}
}

// granted answers a request with a lease, which its session renews from now on.
func (w *fakeWaiter) granted(held *fakeGrant) {
	w.session.attach(held, w.handle)
	now := time.Now()
	w.answer(&pb.AcquireResponse{
		Outcome: pb.AcquireResponse_OUTCOME_ACQUIRED,
		Lease: &pb.Lease{
			LockName: held.lock.name, LeaseId: held.id, GrantId: held.public, FencingToken: held.token,
			Ttl: durationpb.New(max(held.until.Sub(now), 0)),
		},
		HeldFor:     durationpb.New(now.Sub(w.arrived)),
		PreviousEnd: held.previousEnd,
	})
}

func (w *fakeWaiter) answer(answer *pb.AcquireResponse) {
	delete(w.session.waiting, w.operation)
	w.session.answer(w.operation, &pb.SessionResponse{Message: &pb.SessionResponse_Acquire{Acquire: answer}})
}

// refuse answers a request with ABORTED.
func (w *fakeWaiter) refuse(reason string) {
	delete(w.session.waiting, w.operation)
	refused := &pb.OperationError{Code: int32(codes.Aborted), Message: "the fake server refuses the request: " + reason}
	detail, err := anypb.New(&errdetails.ErrorInfo{Domain: facts.ErrorDomain, Reason: reason})
	if err == nil { // such a message can be encoded
		refused.Details = append(refused.Details, detail)
	}
	w.session.send(&pb.SessionResponse{Operation: w.operation, Message: &pb.SessionResponse_Error{Error: refused}})
}
