package fencepost

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
)

// A LeaseEnd says how a lease ended.
type LeaseEnd string

// The ends of a lease.
const (
	// EndUnspecified: no end is known. Servers remember an end for 10 s.
	EndUnspecified LeaseEnd = "unspecified"
	// EndReleased: its holder released it.
	EndReleased LeaseEnd = "released"
	// EndExpired: its TTL passed without a renewal. The work that it protected may be unfinished.
	EndExpired LeaseEnd = "expired"
	// EndRevoked: an operator or the server revoked it. The work that it protected may be unfinished.
	EndRevoked LeaseEnd = "revoked"
	// EndSuperseded: it ended longer ago than the server remembers, and another lease was granted since.
	EndSuperseded LeaseEnd = "superseded"
	// EndUnknown: the server does not know the lease.
	EndUnknown LeaseEnd = "unknown"
)

func leaseEnd(end pb.LeaseEnd) LeaseEnd {
	switch end {
	case pb.LeaseEnd_LEASE_END_RELEASED:
		return EndReleased
	case pb.LeaseEnd_LEASE_END_EXPIRED:
		return EndExpired
	case pb.LeaseEnd_LEASE_END_REVOKED:
		return EndRevoked
	case pb.LeaseEnd_LEASE_END_SUPERSEDED:
		return EndSuperseded
	case pb.LeaseEnd_LEASE_END_UNKNOWN:
		return EndUnknown
	default:
		return EndUnspecified
	}
}

func lossReason(end pb.LeaseEnd) LossReason {
	switch end {
	case pb.LeaseEnd_LEASE_END_RELEASED:
		return LossReleased
	case pb.LeaseEnd_LEASE_END_EXPIRED:
		return LossExpired
	case pb.LeaseEnd_LEASE_END_REVOKED:
		return LossRevoked
	case pb.LeaseEnd_LEASE_END_SUPERSEDED:
		return LossSuperseded
	default:
		return LossUnknown
	}
}

// A LockHolder is one grant of a lock, as others see it.
type LockHolder struct {
	// Holder is the label of the holder. It is "classic client", and Token is 0, if a client that uses Redis directly
	// holds the lock.
	Holder string
	// Owner is the owner that the request named; it proves nothing.
	Owner string
	// Identity is who the holder is, as the server verified it; empty if the server verifies nobody (serve --access).
	// Unlike the label, it proves something.
	Identity string
	// GrantID is the public id of the grant.
	GrantID string
	// Token is the fencing token of the grant.
	Token uint64
	// TTL is the TTL of the lease, which each renewal restores.
	TTL time.Duration
	// ExpiresIn is the time until the lease ends unless it is renewed.
	ExpiresIn time.Duration
	// HeldSince is the time since the grant.
	HeldSince time.Duration
	// Metadata is the metadata of the request, or of its last description.
	Metadata map[string]string
	// Description is the number of its last description; 0 if what it says is that of the request.
	Description uint64
	// Shared is whether the holder shares the lock with others, by [WithShared].
	Shared bool
	// Permits are its permits of a semaphore, and Slot is its slot if it has one permit; 0 if the lock is held as none.
	Permits, Slot uint32
}

// A LockDelay says why nobody gets a lock that nobody holds, or a place of it beside other holders: its last lease was
// acquired with [WithMinHold] or [WithLockDelay].
type LockDelay struct {
	// Remaining is how long it stays unavailable.
	Remaining time.Duration
	// Holder is the label of the holder of that lease.
	Holder string
	// Token is the fencing token of that lease. An operator who forces its release makes the lock available.
	Token uint64
}

// A Semaphore is a lock that is held with permits, by [WithSemaphore].
type Semaphore struct {
	// PermitsUsed is how many permits its holders use: more than the limit only after that was lowered.
	PermitsUsed uint64
	// PermitLimit is the limit in force.
	PermitLimit uint32
	// PermitLimitVersion is its version.
	PermitLimitVersion uint64
}

// LockInfo is the public state of a lock: a snapshot that may be out of date when it arrives.
type LockInfo struct {
	// Name is the name of the lock.
	Name string
	// Holders are the holders; none if nobody holds the lock. One, or the oldest of those that hold it together: at
	// most 8.
	Holders []LockHolder
	// HolderCount is how many holders the lock has in all.
	HolderCount int
	// Semaphore has the permits, if the lock is held as a semaphore; otherwise nil.
	Semaphore *Semaphore
	// Delay says why nobody gets the lock, if nobody holds it; nil if there is no delay.
	Delay *LockDelay
	// Waiters is the number of waiting requests.
	Waiters int
	// PreviousEnd says how the last lease before the current one ended; before the newest one, if the lock is shared.
	PreviousEnd LeaseEnd
	// NewestToken is the highest token granted for the lock; 0 if none is remembered.
	NewestToken uint64
}

// A TokenStatus says what a token is to its lock.
type TokenStatus string

// The statuses of a token. Accept a write only with [TokenCurrent].
const (
	// TokenCurrent is the token of a current lease.
	TokenCurrent TokenStatus = "current"
	// TokenEnded is the newest token, but its lease has ended.
	TokenEnded TokenStatus = "ended"
	// TokenStale is older than the newest token.
	TokenStale TokenStatus = "stale"
	// TokenUnknown is a token that the server does not remember. Current leases are always remembered.
	TokenUnknown TokenStatus = "unknown"
)

// A TokenCheck is the answer of [Client.CheckToken].
type TokenCheck struct {
	// Status is the status of the token.
	Status TokenStatus
	// NewestToken is the highest token granted for the lock; 0 if none is remembered.
	NewestToken uint64
}

func tokenCheck(answer *pb.CheckTokenResponse) TokenCheck {
	statuses := map[pb.CheckTokenResponse_Status]TokenStatus{
		pb.CheckTokenResponse_STATUS_CURRENT: TokenCurrent,
		pb.CheckTokenResponse_STATUS_ENDED:   TokenEnded,
		pb.CheckTokenResponse_STATUS_STALE:   TokenStale,
	}
	check := TokenCheck{Status: TokenUnknown, NewestToken: answer.GetNewestToken()}
	if known, ok := statuses[answer.GetStatus()]; ok {
		check.Status = known
	}
	return check
}

func holders(wire []*pb.LockHolder) []LockHolder {
	found := make([]LockHolder, 0, len(wire))
	for _, holder := range wire {
		found = append(found, LockHolder{
			Holder:      holder.GetHolder(),
			Owner:       holder.GetOwner(),
			Identity:    holder.GetIdentity(),
			GrantID:     holder.GetGrantId(),
			Token:       holder.GetFencingToken(),
			TTL:         duration(holder.GetTtl()),
			ExpiresIn:   duration(holder.GetExpiresIn()),
			HeldSince:   duration(holder.GetHeldSince()),
			Metadata:    holder.GetMetadata(),
			Description: holder.GetDescription(),
			Shared:      holder.GetMode() == pb.LockMode_LOCK_MODE_SHARED,
			Permits:     holder.GetPermits(),
			Slot:        holder.GetSlot(),
		})
	}
	return found
}

// delay is nil if the lock has none.
func delay(wire *pb.LockDelay) *LockDelay {
	if wire == nil {
		return nil
	}
	return &LockDelay{
		Remaining: duration(wire.GetRemaining()), Holder: wire.GetHolder(), Token: wire.GetFencingToken(),
	}
}

// semaphore is nil if the lock is held as none.
func semaphore(wire *pb.Semaphore) *Semaphore {
	if wire == nil {
		return nil
	}
	return &Semaphore{
		PermitsUsed: wire.GetPermitsUsed(), PermitLimit: wire.GetPermitLimit(),
		PermitLimitVersion: wire.GetPermitLimitVersion(),
	}
}

func lockInfo(wire *pb.LockInfo) LockInfo {
	return LockInfo{
		Name:        wire.GetLockName(),
		Holders:     holders(wire.GetHolders()),
		HolderCount: int(wire.GetHolderCount()),
		Semaphore:   semaphore(wire.GetSemaphore()),
		Delay:       delay(wire.GetDelay()),
		Waiters:     int(wire.GetWaiters()),
		PreviousEnd: leaseEnd(wire.GetPreviousEnd()),
		NewestToken: wire.GetNewestToken(),
	}
}

// duration converts a duration from the wire. One that is absent or negative counts as 0.
func duration(wire *durationpb.Duration) time.Duration {
	if wire == nil {
		return 0
	}
	return max(wire.AsDuration(), 0)
}
