package fencepost

import (
	"context"
	"log/slog"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/internal/clock"
)

// The client's mutex is held in all functions of this file.

// renewed records that leases were renewed: by the beat answer sent at sent or, if that is 0, by their attachment.
func (s *session) renewed(groups []*pb.RenewedLeases, sent, now clock.Moment) {
	for _, group := range groups {
		ttl := duration(group.GetTtl())
		for _, handle := range group.GetHandles() {
			attachment := s.outbox.attached[handle]
			if attachment == nil || attachment.sent == 0 {
				continue
			}
			attachment.confirmed = true
			from := sent
			if from == 0 {
				from = attachment.sent
			}
			attachment.lease.renewed(reading{sent: from, read: now, ttl: ttl})
		}
	}
}

// lost records that a lease has ended.
func (s *session) lost(lost *pb.Lost, now clock.Moment) {
	attachment := s.outbox.take(lost.GetHandle())
	if attachment == nil {
		return
	}
	held := attachment.lease
	held.finish(now, held.lost(lost.GetEnd(), lost.GetSuccessorToken()))
	s.client.forget(held)
	s.client.detachElsewhere(held, s)
}

// detached records that this session no longer keeps a lease alive.
func (s *session) detached(detached *pb.Detached, now clock.Moment) {
	attachment := s.outbox.take(detached.GetHandle())
	// If the lease has been attached to the next session since, this is expected.
	if attachment == nil || !attachment.isLatest() {
		return
	}
	held := attachment.lease
	if held.state(now).end != nil {
		return
	}
	if detached.GetReason() == pb.Detached_REASON_STREAM_FULL {
		held.attachments.single = true
		s.client.spawn(func() { s.client.renewAlone(held) })
		return
	}
	// Once on each session may be a late message of an old session, and is corrected. Twice means that another process
	// keeps the lease: it stays valid until the known end, and is attached neither here nor to later sessions.
	if attachment.repeated {
		held.attachments.single = true
		held.renewalsFail(now, false, "another process keeps it alive")
		return
	}
	s.outbox.attachAgain(held, now)
	s.notify()
}

// answered ends an operation.
func (s *session) answered(response *pb.SessionResponse, failed *failure, now clock.Moment) {
	op := s.outbox.operationAnswered(response.GetOperation())
	if op == nil {
		s.client.events.add(slog.LevelDebug, "answer to an unknown operation", s.address())
		return
	}
	switch {
	case failed != nil:
		// A release that failed still ends the renewals.
		if op.lease != nil && op.isRelease() && op.handle != 0 {
			s.outbox.toDetach = append(s.outbox.toDetach, op.handle)
		}
	case op.acquire != nil:
		s.granted(op, response.GetAcquire(), now)
	case !op.isRelease():
		s.renewedAlone(op, response.GetRenew(), now)
	}
	op.finish(response, failed)
	s.notify()
}

// renewedAlone takes in the answer to the renewal of one lease.
func (s *session) renewedAlone(op *operation, answer *pb.RenewResponse, now clock.Moment) {
	switch answer.GetOutcome() {
	case pb.RenewResponse_OUTCOME_RENEWED:
		op.lease.renewed(reading{
			sent: op.sent, read: now, heldFor: duration(answer.GetHeldFor()), ttl: duration(answer.GetTtl()),
		})
	case pb.RenewResponse_OUTCOME_LOST:
		op.lease.finish(now, op.lease.lost(answer.GetEnd(), answer.GetSuccessorToken()))
		s.client.forget(op.lease)
		s.client.detachElsewhere(op.lease, nil)
	default:
		s.client.events.add(slog.LevelDebug, "unknown answer to a renewal", s.address())
	}
}

// granted attaches a lease that was granted here. The grant is its first attachment.
func (s *session) granted(op *operation, answer *pb.AcquireResponse, now clock.Moment) {
	wire := answer.GetLease()
	if answer.GetOutcome() != pb.AcquireResponse_OUTCOME_ACQUIRED || wire == nil {
		return
	}
	if op.ignored {
		// A later transmission of the request gets the lease, or releases it.
		s.outbox.toDetach = append(s.outbox.toDetach, op.handle)
		return
	}
	first := reading{sent: op.sent, read: now, heldFor: duration(answer.GetHeldFor()), ttl: duration(wire.GetTtl())}
	held := &lease{
		released:    make(chan struct{}),
		name:        op.acquire.request.GetLockName(),
		id:          wire.GetLeaseId(),
		grantID:     wire.GetGrantId(),
		changing:    make(chan struct{}, 1),
		wanted:      make(chan struct{}),
		description: op.acquire.firstDescription,
		permits:     op.acquire.request.GetPermits(),
		slot:        wire.GetSlot(),
		events:      s.client.events,
		onAtRisk:    op.acquire.onAtRisk,
		validUntil:  first.validUntil(),
		ttl:         first.ttl,
		replayed:    op.acquire.request.GetAttempt() > 1,

		hasMaxHold:   op.acquire.request.GetMaxHold() != nil,
		hasLockDelay: op.acquire.request.GetLockDelay() != nil,
	}
	label := op.acquire.request.GetHolder()
	held.holder.Store(&label)
	held.token.Store(wire.GetFencingToken())
	mode := wire.GetMode()
	if mode == pb.LockMode_LOCK_MODE_UNSPECIFIED { // an older server does not tell it
		mode = op.acquire.request.GetMode()
	}
	held.shared.Store(mode == pb.LockMode_LOCK_MODE_SHARED)
	held.attachments.attempt, held.attachments.at = 1, now
	held.ctx, held.cancel = context.WithCancelCause(context.WithoutCancel(op.acquire.ctx))
	s.outbox.insert(op.handle, &attachment{lease: held, number: 1, sent: op.sent, confirmed: true})
	s.client.remember(held, now)
	op.granted = held
}
