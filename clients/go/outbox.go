package fencepost

import (
	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/internal/clock"
	"github.com/fencepost/fencepost-go/internal/facts"
)

const (
	// messageBytes is the maximum total size of the items of one message; servers accept facts.RequestBytesMax.
	messageBytes = facts.RequestBytesMax / 4 * 3
	// attachmentBytes is the maximum size of an attachment on the wire without its name and lease id.
	attachmentBytes = 32
	// handlesMax is the maximum number of handles in one message; each takes up to 5 bytes.
	handlesMax = messageBytes / 5
	// answersMax is the number of beat answers remembered for the renewals that quote them. A server renews well
	// within so many beats.
	answersMax = 64
	// acquiresMax and promptMax are the maximum numbers of operations in flight on a session, which a server limits to
	// 16,384. They are counted apart, because a waiting acquire may wait for a release.
	acquiresMax, promptMax = 8_000, 2_000
)

// An attachment is one attachment of a lease to a session.
type attachment struct {
	lease *lease
	// number counts over all sessions.
	number uint32
	// sent is when it was sent; 0 before that.
	sent clock.Moment
	// repeated is whether it repeats one that the server ended on this session.
	repeated bool
	// confirmed is whether the server has confirmed it.
	confirmed bool
}

// isLatest reports whether the lease has not been attached elsewhere since.
func (a *attachment) isLatest() bool { return a.lease.attachments.attempt == a.number }

// An outbox has what a session has to send, and what it has sent. It is bounded by the numbers of leases and
// operations, and only the newest beat is answered. The client's mutex guards it.
type outbox struct {
	attached map[uint32]*attachment
	byLease  map[*lease]uint32
	// reserved are the handles of acquires in flight.
	reserved   map[uint32]struct{}
	lastHandle uint32

	// operations are those in flight.
	operations map[uint64]*operation
	lastNumber uint64
	// acquires and prompt count them.
	acquires, prompt int

	toAttach []uint32
	toDetach []uint32
	toCancel []uint64
	beat     uint64
	hasBeat  bool
	answers  []beatAnswer
}

type beatAnswer struct {
	beat uint64
	sent clock.Moment
}

func newOutbox() outbox {
	return outbox{
		attached:   map[uint32]*attachment{},
		byLease:    map[*lease]uint32{},
		reserved:   map[uint32]struct{}{},
		operations: map[uint64]*operation{},
	}
}

func (o *outbox) nextHandle() uint32 {
	for {
		o.lastHandle++
		_, reserved := o.reserved[o.lastHandle]
		// 0 stands for no handle in an operation.
		if o.lastHandle != 0 && !reserved && o.attached[o.lastHandle] == nil {
			return o.lastHandle
		}
	}
}

// attach attaches a lease under a new handle, in place of its previous one on this session.
func (o *outbox) attach(l *lease, now clock.Moment) { o.queueAttachment(l, now, false) }

// attachAgain attaches a lease whose attachment the server has ended.
func (o *outbox) attachAgain(l *lease, now clock.Moment) { o.queueAttachment(l, now, true) }

func (o *outbox) queueAttachment(l *lease, now clock.Moment, repeated bool) {
	l.attachments.attempt++
	l.attachments.at = now
	handle := o.nextHandle()
	o.insert(handle, &attachment{lease: l, number: l.attachments.attempt, repeated: repeated})
	o.toAttach = append(o.toAttach, handle)
}

func (o *outbox) insert(handle uint32, a *attachment) {
	if old, ok := o.byLease[a.lease]; ok {
		delete(o.attached, old)
	}
	o.byLease[a.lease] = handle
	o.attached[handle] = a
}

// take removes an attachment.
func (o *outbox) take(handle uint32) *attachment {
	taken := o.attached[handle]
	if taken != nil {
		delete(o.attached, handle)
		if o.byLease[taken.lease] == handle {
			delete(o.byLease, taken.lease)
		}
	}
	return taken
}

// remove takes a lease off the session, and returns its handle if the server knows it; otherwise 0.
func (o *outbox) remove(l *lease) uint32 {
	handle, ok := o.byLease[l]
	if !ok {
		return 0
	}
	if o.take(handle).sent == 0 {
		return 0
	}
	return handle
}

// detach stops the renewals of a lease.
func (o *outbox) detach(l *lease) {
	if handle := o.remove(l); handle != 0 {
		o.toDetach = append(o.toDetach, handle)
	}
}

// answeredAt is when a beat was answered.
func (o *outbox) answeredAt(beat uint64) (clock.Moment, bool) {
	for _, answer := range o.answers {
		if answer.beat == beat {
			return answer.sent, true
		}
	}
	return 0, false
}

// operationAnswered removes an operation.
func (o *outbox) operationAnswered(number uint64) *operation {
	op := o.operations[number]
	if op == nil {
		return nil
	}
	delete(o.operations, number)
	if op.acquire != nil {
		o.acquires--
		delete(o.reserved, op.handle)
	} else {
		o.prompt--
	}
	return op
}

// next returns the next message to send; nil if there is none. Its effect counts from now, which is before it is sent.
// The answer to a beat goes first: nothing may delay it. New acquires go last: existing leases have priority.
func (s *session) next(now clock.Moment) *pb.SessionRequest {
	o := &s.outbox
	switch {
	case s.ended:
		return nil
	case o.hasBeat:
		return o.nextAnswer(now)
	case len(o.toDetach) > 0:
		return o.nextDetach()
	}
	if message := o.nextCancel(); message != nil {
		return message
	}
	if op := s.client.takePrompt(s, now); op != nil {
		o.prompt++
		if op.isRelease() {
			// The release also ends the renewals here. On the other session they have to be ended apart.
			op.handle = o.remove(op.lease)
			s.client.detachElsewhere(op.lease, s)
		}
		return s.start(op, now)
	}
	if message := o.nextAttach(now); message != nil {
		return message
	}
	if op := s.client.takeAcquire(s); op != nil {
		o.acquires++
		handle := o.nextHandle()
		o.reserved[handle] = struct{}{}
		op.prepare(now, handle)
		return s.start(op, now)
	}
	return nil
}

// start gives an operation its number.
func (s *session) start(op *operation, now clock.Moment) *pb.SessionRequest {
	s.outbox.lastNumber++
	op.session, op.number, op.sent = s, s.outbox.lastNumber, now
	op.message.Operation = op.number
	s.outbox.operations[op.number] = op
	return op.message
}

func (o *outbox) nextAnswer(now clock.Moment) *pb.SessionRequest {
	o.hasBeat = false
	if len(o.answers) == answersMax {
		o.answers = append(o.answers[:0], o.answers[1:]...)
	}
	o.answers = append(o.answers, beatAnswer{beat: o.beat, sent: now})
	return &pb.SessionRequest{Message: &pb.SessionRequest_Answer{Answer: &pb.BeatAnswer{Beat: o.beat}}}
}

func (o *outbox) nextDetach() *pb.SessionRequest {
	count := min(len(o.toDetach), handlesMax)
	handles := o.toDetach[:count:count]
	o.toDetach = o.toDetach[count:]
	return &pb.SessionRequest{Message: &pb.SessionRequest_Detach{Detach: &pb.DetachLeases{Handles: handles}}}
}

// nextCancel skips acquires that were answered meanwhile.
func (o *outbox) nextCancel() *pb.SessionRequest {
	for len(o.toCancel) > 0 {
		number := o.toCancel[0]
		o.toCancel = o.toCancel[1:]
		if o.operations[number] != nil {
			cancel := &pb.CancelOperation{Operation: number}
			return &pb.SessionRequest{Message: &pb.SessionRequest_Cancel{Cancel: cancel}}
		}
	}
	return nil
}

func (o *outbox) nextAttach(now clock.Moment) *pb.SessionRequest {
	var leases []*pb.LeaseAttachment
	bytes := 0
	for len(o.toAttach) > 0 {
		handle := o.toAttach[0]
		// Detached meanwhile, if it is nil.
		if attached := o.attached[handle]; attached != nil {
			bytes += len(attached.lease.name) + len(attached.lease.id) + attachmentBytes
			if bytes > messageBytes && len(leases) > 0 {
				break
			}
			attached.sent = now
			leases = append(leases, &pb.LeaseAttachment{
				Handle: handle, LockName: attached.lease.name, LeaseId: attached.lease.id, Attempt: attached.number,
			})
		}
		o.toAttach = o.toAttach[1:]
	}
	if len(leases) == 0 {
		return nil
	}
	return &pb.SessionRequest{Message: &pb.SessionRequest_Attach{Attach: &pb.AttachLeases{Leases: leases}}}
}
