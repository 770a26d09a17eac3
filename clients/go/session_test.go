package fencepost

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/internal/clock"
)

func newTestClient(t *testing.T, servers ...string) *Client {
	t.Helper()
	client, err := New(Config{Servers: servers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

// attached returns a session with an attached lease, at a moment.
func attached(t *testing.T) (s *session, held *lease, now clock.Moment) {
	t.Helper()
	held, now = newLease(time.Second)
	held.ttl = time.Second
	s = newSession(newTestClient(t, "127.0.0.1:1"), 0, now)
	s.outbox.insert(1, &attachment{lease: held, number: 1, sent: now, confirmed: true})
	held.attachments.attempt = 1
	return s, held, now
}

// A renewal counts from when the answer to the beat that it names was sent, not from its arrival or a later answer.
func TestARenewalCountsFromTheAnswerToItsBeat(t *testing.T) {
	s, held, now := attached(t)
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	for beat := range uint64(2) {
		s.receive(&pb.SessionResponse{Message: &pb.SessionResponse_Beat{Beat: &pb.Beat{Beat: beat + 1}}}, now)
		answer := s.next(now.Add(time.Duration(beat+1) * 100 * ms))
		if answer.GetAnswer().GetBeat() != beat+1 {
			t.Fatalf("got %v", answer)
		}
	}
	s.receive(&pb.SessionResponse{Message: &pb.SessionResponse_Renewed{Renewed: &pb.Renewed{
		Beat: 1, Leases: []*pb.RenewedLeases{{Ttl: durationpb.New(2 * time.Second), Handles: []uint32{1}}},
	}}}, now.Add(300*ms))
	if left := held.state(now).left; left != 100*ms+2000*ms-20*ms-100*ms {
		t.Fatalf("%v is left", left)
	}
}

// Beats are answered before anything else is sent.
func TestABeatIsAnsweredFirst(t *testing.T) {
	s, held, now := attached(t)
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	s.client.current = s
	s.client.pending.add(releaseOperation(held))
	s.outbox.attach(held, now)
	s.outbox.toDetach = append(s.outbox.toDetach, 7)
	s.receive(&pb.SessionResponse{Message: &pb.SessionResponse_Beat{Beat: &pb.Beat{Beat: 1}}}, now)
	if first := s.next(now); first.GetAnswer() == nil {
		t.Fatalf("got %v", first)
	}
	s.client.current = nil
}

// A release goes to a session that works: the next one may be refused, as by the only server while it drains.
func TestAReleaseGoesToTheSessionThatWorks(t *testing.T) {
	previous, held, now := attached(t)
	client := previous.client
	client.mu.Lock()
	defer client.mu.Unlock()
	previous.proven, previous.answers, previous.draining = true, true, true
	current := newSession(client, 0, now)
	client.current, client.previous = current, previous
	defer func() { client.current, client.previous = nil, nil }()
	carries := func(now clock.Moment) [2]bool {
		return [2]bool{client.carriesPrompt(current, now), client.carriesPrompt(previous, now)}
	}
	if got := carries(now); got != [2]bool{false, true} {
		t.Fatalf("the next session is open: %v", got)
	}
	client.pending.add(releaseOperation(held))
	if current.next(now) != nil || previous.next(now).GetRelease() == nil {
		t.Fatal("the release is not sent on the session that works")
	}
	previous.suspect = true
	if got := carries(now); got != [2]bool{true, true} {
		t.Fatalf("neither works: %v", got)
	}
	current.proven, previous.suspect = true, false
	if got := carries(now); got != [2]bool{true, false} {
		t.Fatalf("the next session works: %v", got)
	}
}

// While a release pauses before it is repeated, it is neither pending nor on a session.
func TestASessionThatWorksStaysForARelease(t *testing.T) {
	previous, _, now := attached(t)
	client := previous.client
	client.mu.Lock()
	defer client.mu.Unlock()
	previous.proven = true
	client.current, client.previous = newSession(client, 0, now), previous
	defer func() { client.current = nil }()
	client.releases = 1
	client.retirePrevious(now)
	if client.previous != previous || previous.ended {
		t.Fatal("the session ended before the release")
	}
	client.releases = 0
	client.retirePrevious(now)
	if client.previous != nil || !previous.ended {
		t.Fatal("the session stays without a release")
	}
}

// Each attachment of a lease has a higher number, over all sessions: a late one must not take the lease back.
func TestAttachmentsCountOverSessions(t *testing.T) {
	s, held, now := attached(t)
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	for want := range uint32(3) {
		next := newSession(s.client, 0, now)
		next.outbox.attach(held, now)
		sent := next.next(now).GetAttach().GetLeases()
		if len(sent) != 1 || sent[0].GetAttempt() != want+2 {
			t.Fatalf("got %v", sent)
		}
	}
	// The server detaches it from the first session: it is attached elsewhere.
	s.receive(detachment(1), now)
	if again := s.next(now); again != nil {
		t.Fatalf("got %v", again)
	}
}

func detachment(handle uint32) *pb.SessionResponse {
	return &pb.SessionResponse{Message: &pb.SessionResponse_Detached{Detached: &pb.Detached{Handle: handle}}}
}

// A server that detaches a lease does not renew it: it is attached again, once on each session. The second detachment on
// the same one means that another process keeps the lease, and no session attaches it any more.
func TestADetachmentIsAnsweredOnceOnEachSession(t *testing.T) {
	s, held, now := attached(t)
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	again := func(s *session, handle, attempt uint32) uint32 {
		s.receive(detachment(handle), now)
		sent := s.next(now).GetAttach().GetLeases()
		if len(sent) != 1 || sent[0].GetAttempt() != attempt {
			t.Fatalf("got %v", sent)
		}
		return sent[0].GetHandle()
	}
	again(s, 1, 2)
	s.client.leases[held] = struct{}{}
	defer delete(s.client.leases, held)
	s.client.open(now)
	next := s.client.current
	moved := next.next(now).GetAttach().GetLeases()
	if len(moved) != 1 || moved[0].GetAttempt() != 3 {
		t.Fatalf("got %v", moved)
	}
	handle := again(next, moved[0].GetHandle(), 4)
	next.receive(detachment(handle), now)
	if more := next.next(now); more != nil || held.state(now).end != nil || !held.atRisk {
		t.Fatalf("got %v, %v, at risk %v", more, held.state(now).end, held.atRisk)
	}
	s.client.open(now)
	if more := s.client.current.next(now); more != nil {
		t.Fatalf("got %v", more)
	}
}

// Silence is half of the shortest TTL without any message.
func TestASessionIsSilentAfterHalfOfTheShortestTTL(t *testing.T) {
	s, _, now := attached(t)
	s.answers = true
	if s.isSilent(now.Add(500*ms), time.Second) || !s.isSilent(now.Add(501*ms), time.Second) {
		t.Fatal("not half of the TTL")
	}
	if s.isSilent(now.Add(time.Hour), 0) {
		t.Fatal("nothing is expected without leases")
	}
}

func TestADifferentStoreIsNewsOnce(t *testing.T) {
	all := &servers{list: []*server{{}, {}, {}}}
	const none = -1
	for i, told := range []struct {
		server int
		id     string
		other  int
	}{
		{2, "x", none},
		{0, "x", none},
		{1, "y", 0},
		{1, "y", none},
		{0, "y", 2},
		{2, "y", none}, // all have it now
	} {
		if other := slices.Index(all.list, all.toldStore(told.server, told.id)); other != told.other {
			t.Errorf("step %d: got server %d, want %d", i, other, told.other)
		}
	}
}
