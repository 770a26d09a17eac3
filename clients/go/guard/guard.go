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
// The packages below are for databases: sqlguard for database/sql (PostgreSQL, MySQL and MariaDB, SQLite), pgxguard for
// pgx, redisguard for go-redis. They are in a module apart from the client, which needs no driver.
package guard

import (
	"errors"
	"fmt"
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

// ErrStaleToken matches a [*StaleTokenError].
var ErrStaleToken = errors.New("fencepost: the token is stale")

// ErrNotRaised says that CheckShared was called with a token that RaiseShared has not raised in this store.
var ErrNotRaised = errors.New("fencepost: RaiseShared has not raised the token in this store")

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
