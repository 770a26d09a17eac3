package fencepost

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/internal/clock"
	"github.com/fencepost/fencepost-go/internal/facts"
)

// A session is one stream to a server, with a connection of its own. It acquires, renews and releases.
//
// The goroutine that reads never waits for anything but the stream: it takes the client's mutex, which is held for a few
// instructions only, and wakes the goroutine that sends. That one makes each message at the moment at which the
// transport takes it, so no message becomes stale in a queue, and it may block when the server does not read.
type session struct {
	client *Client
	server int
	ctx    context.Context
	cancel context.CancelFunc
	// wake tells the sender that there may be a message.
	wake chan struct{}

	// The following fields are guarded by the mutex of the client.

	// lastReceived is when the last message arrived; before the first one, when the session was opened.
	lastReceived clock.Moment
	// answers is whether any message has arrived, proven whether it has kept a lease or answered an operation.
	answers, proven bool
	// asking is whether the function for the token has not returned yet.
	asking bool
	// suspect is whether an operation got no answer in time while nothing else arrived.
	suspect         bool
	draining, ended bool
	// refused is why the server had no room for the session; nil if it did not say so. The next one is opened at
	// reopenAt at the earliest.
	refused  *failure
	reopenAt clock.Moment

	outbox outbox
}

func newSession(c *Client, server int, now clock.Moment) *session {
	ctx, cancel := context.WithCancel(context.Background())
	return &session{
		client: c, server: server, ctx: ctx, cancel: cancel, wake: make(chan struct{}, 1),
		lastReceived: now, asking: c.settings.token != nil, outbox: newOutbox(),
	}
}

// works reports whether it has kept a lease or answered, and has not ended.
func (s *session) works() bool { return s.proven && !s.ended }

// isSilent reports whether nothing has arrived for too long. Without leases nothing is expected: pings check the
// connection, and operations their answers.
func (s *session) isSilent(now clock.Moment, pace time.Duration) bool {
	if s.suspect {
		return true
	}
	if pace == 0 {
		return false
	}
	limit := answerTimeout(pace)
	switch {
	case s.asking:
		limit = tokenTimeout
	case s.answers:
		limit = pace / facts.SilenceDivisor
	}
	return now.Sub(s.lastReceived) > limit
}

// pace is the shortest TTL of the leases attached to this session, which sets the interval of its beats.
func (s *session) pace(now clock.Moment) time.Duration {
	var shortest time.Duration
	for _, attachment := range s.outbox.attached {
		ttl := attachment.lease.state(now).ttl
		if shortest == 0 || ttl < shortest {
			shortest = ttl
		}
	}
	return shortest
}

// isUseful reports whether it still renews leases or answers operations.
func (s *session) isUseful() bool { return s.works() || !s.ended && len(s.outbox.operations) > 0 }

// renews is the number of leases that the server keeps on this session.
func (s *session) renews(now clock.Moment) int {
	if !s.works() || s.isSilent(now, s.pace(now)) {
		return 0
	}
	count := 0
	for _, attachment := range s.outbox.attached {
		if attachment.confirmed {
			count++
		}
	}
	return count
}

// keepsAll reports whether the server has confirmed every attachment.
func (s *session) keepsAll() bool {
	for _, attachment := range s.outbox.attached {
		if !attachment.confirmed {
			return false
		}
	}
	return s.works()
}

// notify wakes the sender.
func (s *session) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// address is the server as a field of an event.
func (s *session) address() slog.Attr { return slog.String("server", s.client.servers.name(s.server)) }

// run opens the session and reads it until it ends.
func (s *session) run() {
	known := s.client.servers.isTroubled(s.server)
	failed, answers := s.read()
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	if !answers {
		failed = failed.ofStream()
	}
	if failed.noRoom {
		s.refused, s.reopenAt = failed, clock.Now().Add(failed.retryAfter)
	} else if !answers && !failed.isTransient() && failed.isFinalForSession() {
		// The server refused the session and did nothing. The next session would be refused as well.
		failed.unsent = true
		for _, op := range s.client.pending.drain() {
			op.finish(nil, failed)
		}
	} else if !failed.isTransient() {
		// The status of the stream says nothing about the operations on it.
		failed.code = unavailable("").code
	}
	// If the client has ended it, the server is not the cause.
	if !s.ended {
		s.client.lastFailure = failed
		if !failed.isOverQuota() {
			s.client.moveOn(s.server, failed, known && !answers)
		}
	}
	s.end(failed)
	if failed.noRoom {
		s.client.goBack(s, clock.Now())
	}
}

// read returns why the session ended, and whether any message had arrived.
func (s *session) read() (*failure, bool) {
	connection, err := s.client.servers.dial(s.server)
	if err != nil {
		return failureOf(err), false
	}
	defer func() { _ = connection.Close() }() // fails only if it is closed already
	// Asked first: the time that its function takes is not that of the server.
	ctx, err := s.client.servers.authorized(s.ctx)
	if err != nil {
		return failureOf(err), false
	}
	s.client.mu.Lock()
	s.asking, s.lastReceived = false, max(s.lastReceived, clock.Now())
	s.client.mu.Unlock()
	tooLate := time.AfterFunc(min(connectTimeout+time.Second, s.client.servers.answerTime()), s.cancel)
	stream, err := pb.NewLockServiceClient(connection).Session(ctx)
	if !tooLate.Stop() {
		return s.client.servers.unreached(s.server, codes.Unavailable, silent()), false
	}
	if err != nil {
		return s.failureOf(err), false
	}
	sending := make(chan struct{})
	go func() {
		defer close(sending)
		s.send(stream.Send)
	}()
	defer func() {
		s.cancel() // ends the sender, wherever it is
		<-sending
	}()
	for answers := false; ; answers = true {
		response, err := stream.Recv()
		if err != nil {
			return s.failureOf(err), answers
		}
		if !answers {
			s.readStore(stream)
		}
		now := clock.Now()
		s.client.mu.Lock()
		s.receive(response, now)
		s.client.mu.Unlock()
	}
}

// readStore reads the id of the server's store from the headers. They came before the first message.
func (s *session) readStore(stream grpc.ClientStream) {
	headers, err := stream.Header()
	ids := headers.Get(facts.StoreIdMetadata)
	if err != nil || len(ids) == 0 { // an older server does not tell it
		return
	}
	if other := s.client.servers.toldStore(s.server, ids[0]); other != nil {
		s.client.events.otherStore(s.client.servers.name(s.server), other.address.String())
	}
}

// failureOf reads the error of the stream. If the client has ended it, the error says nothing about the server.
func (s *session) failureOf(err error) *failure {
	if s.ctx.Err() != nil {
		return failureOf(err)
	}
	return s.client.servers.failureOf(s.server, err)
}

// send sends the messages of the outbox until the session ends.
func (s *session) send(send func(*pb.SessionRequest) error) {
	for {
		s.client.mu.Lock()
		message := s.next(clock.Now())
		s.client.mu.Unlock()
		if message != nil {
			// Blocks while the server does not read. The reader learns why it fails.
			if send(message) != nil {
				return
			}
			continue
		}
		select {
		case <-s.wake:
		case <-s.ctx.Done():
			return
		}
	}
}

// end ends the session. Operations without an answer fail. The client's mutex is held.
func (s *session) end(failed *failure) {
	if s.ended {
		return
	}
	s.ended = true
	s.cancel()
	operations := s.outbox.operations
	s.outbox = newOutbox()
	for _, op := range operations {
		op.finish(nil, failed)
	}
	s.client.notify()
	s.client.notifySessions() // the other session carries all operations from now on
}

// drains records that the server drains: new operations use another one. The client's mutex is held.
func (s *session) drains() {
	if !s.draining {
		s.draining = true
		s.client.moveOn(s.server, &failure{found: &finding{text: ": it drains"}}, s.client.servers.count() == 1)
		s.client.notify()
	}
}

// receive takes in one message. The client's mutex is held.
func (s *session) receive(response *pb.SessionResponse, now clock.Moment) {
	if s.ended {
		return
	}
	s.lastReceived, s.answers, s.suspect = max(s.lastReceived, now), true, false
	proof := true
	switch message := response.GetMessage().(type) {
	case *pb.SessionResponse_Beat:
		s.outbox.beat, s.outbox.hasBeat = message.Beat.GetBeat(), true
		s.notify()
		proof = false
	case *pb.SessionResponse_Waiting:
		if op := s.outbox.operations[response.GetOperation()]; op != nil {
			op.moved(int(message.Waiting.GetAhead()))
		}
	case *pb.SessionResponse_Attached:
		s.renewed(message.Attached.GetLeases(), 0, now)
	case *pb.SessionResponse_Renewed:
		// A renewal that quotes a forgotten answer is too old to be useful.
		if sent, ok := s.outbox.answeredAt(message.Renewed.GetBeat()); ok {
			s.renewed(message.Renewed.GetLeases(), sent, now)
		}
	case *pb.SessionResponse_Lost:
		s.lost(message.Lost, now)
	case *pb.SessionResponse_AtRisk:
		cause := "the store of " + s.client.servers.name(s.server) + " does not answer"
		for _, handle := range message.AtRisk.GetHandles() {
			if attachment := s.outbox.attached[handle]; attachment != nil && attachment.isLatest() {
				attachment.lease.renewalsFail(now, true, cause)
			}
		}
		proof = false
	case *pb.SessionResponse_Detached:
		s.detached(message.Detached, now)
	case *pb.SessionResponse_Wanted:
		if attachment := s.outbox.attached[message.Wanted.GetHandle()]; attachment != nil {
			attachment.lease.toldWanted(lockMode(message.Wanted.GetMode()))
		}
		proof = false
	case *pb.SessionResponse_Draining:
		s.drains()
		proof = false
	case *pb.SessionResponse_Acquire, *pb.SessionResponse_Release, *pb.SessionResponse_Renew:
		s.answered(response, nil, now)
	case *pb.SessionResponse_Error:
		failed := failureOfOperation(message.Error)
		s.answered(response, failed, now)
		if failed.reason == "DRAINING" {
			s.drains()
		}
		proof = false
	}
	if proof && !s.proven {
		s.proven = true
		s.client.lastFailure = nil
		s.client.servers.works(s.server)
		s.client.notify()
		s.notify() // it carries all operations from now on
	}
}
