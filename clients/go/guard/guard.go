// Package guard protects the writes of a lock's holder by its fencing token: a holder that was paused past the end of
// its lease, and does not know that yet, cannot write over the work of the next one.
//
// In the transaction of the write, raise the fence first, then read, then write. Raise fails with a [*StaleTokenError]
// if a holder with a higher token has raised the fence before: roll back, and stop the work. Otherwise the fence stays
// locked until the end of the transaction, so no other holder writes in between.
//
// The holder of a shared lock is a reader, and there may be several. A reader raises its token once after the grant,
// with RaiseShared, which is a transaction of its own. Then it calls CheckShared first in each transaction of its work.
// What it reads there stays so: no earlier writer gets through, and a later one waits for the transaction.
//
// The holders of a semaphore work side by side. One permit has a fence of its own for each slot, see [FenceName];
// several permits have none, and are refused with [ErrNoSlot].
//
// The packages below are for databases: sqlguard for database/sql (PostgreSQL, MySQL and MariaDB, SQLite), pgxguard for
// pgx, redisguard for go-redis. They are in a module apart from the client, which needs no driver.
package guard

import (
	"errors"
	"fmt"

	"github.com/fencepost/fencepost-go/internal/facts"
)

// A Grant is one grant of a lock, such as a [*github.com/fencepost/fencepost-go.Lock].
type Grant interface {
	// Name is the name of the lock.
	Name() string
	// Token is the fencing token of the grant.
	Token() uint64
	// GrantID is the public id of the grant. Equal tokens pass only with the same id: a server whose store lost its
	// data may grant a token again.
	GrantID() string
}

// A Permit is a grant of a semaphore. A [Grant] that has these methods, too, as a Lock has, and permits, is one.
type Permit interface {
	Grant
	// Permits is how many permits it has; 0 if the lock is held as no semaphore.
	Permits() uint32
	// Slot is its slot, if it has one permit.
	Slot() (slot uint32, ok bool)
}

// FenceName is the name of the fence that the guards raise for a grant: the name of the lock, or NAME#SLOT for one
// permit of a semaphore. The holders of a semaphore work side by side, so only the tokens of one slot are in an order.
//
// The error is [ErrNoSlot] for several permits, and another one if the name is too long for the table of fences.
func FenceName(grant Grant) (string, error) {
	name, err := FenceKey(grant, grant.Name())
	if err == nil && len(name) > facts.NameBytesMax && name != grant.Name() {
		return "", fmt.Errorf("fencepost: the fence %q is longer than %d bytes: give the lock a shorter name", name,
			facts.NameBytesMax)
	}
	return name, err
}

// FenceKey is the key of the fence in Redis: key, or KEY#SLOT for one permit of a semaphore. The error is [ErrNoSlot]
// for several permits.
func FenceKey(grant Grant, key string) (string, error) {
	permit, ok := grant.(Permit)
	if !ok {
		return key, nil
	}
	if slot, ok := permit.Slot(); ok {
		return fmt.Sprintf("%s#%d", key, slot), nil
	}
	if permits := permit.Permits(); permits != 0 {
		return "", fmt.Errorf("%w: lock %q, %d permits", ErrNoSlot, grant.Name(), permits)
	}
	return key, nil
}

// ErrStaleToken matches a [*StaleTokenError].
var ErrStaleToken = errors.New("fencepost: the token is stale")

// ErrNotRaised says that CheckShared was called with a token that RaiseShared has not raised in this store.
var ErrNotRaised = errors.New("fencepost: RaiseShared has not raised the token in this store")

// ErrNoSlot says that a lock is held with several permits of a semaphore.
var ErrNoSlot = errors.New("fencepost: a lock with several permits of a semaphore has no slot, and a store cannot " +
	"order its token: take one permit each, or check the token with CheckToken right before the write")

// ErrNotShared says that RaiseShared or CheckShared was called with a permit of a semaphore.
var ErrNotShared = errors.New("fencepost: the lock is held as a semaphore, not as a shared lock: raise its fence in " +
	"the transaction of the write")

// A StaleTokenError says that another holder has raised the fence: the lock was lost. Roll back, and write nothing. It
// matches [ErrStaleToken].
type StaleTokenError struct {
	// Name is the name of the lock.
	Name string
	// Token is the stale token, and Newest the one of the fence. They are equal if the store of the lock server lost
	// its data and granted the token again.
	Token, Newest uint64
}

func (e *StaleTokenError) Error() string {
	return fmt.Sprintf("fencepost: token %d of %s is stale: the store has seen %d", e.Token, e.Name, e.Newest)
}

// Is reports whether target is [ErrStaleToken].
func (e *StaleTokenError) Is(target error) bool { return target == ErrStaleToken }
