// Package pgxguard has the guard for PostgreSQL through pgx. See [guard] for how it is used.
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if err := pgxguard.Raise(ctx, tx, lock); err != nil {
//			return err
//		}
//		// read, write
//		return nil
//	})
package pgxguard

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost-go/guard"
	"github.com/fencepost/fencepost-go/guard/internal/readers"
	"github.com/fencepost/fencepost-go/internal/facts"
)

// An Execer executes statements: a connection, a pool, or a transaction of pgx.
type Execer interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, arguments ...any) pgx.Row
}

// CreateTable creates the table fencepost_fences unless it exists, and adds what one of an earlier version lacks. Call
// it once when the program starts, or in a migration.
func CreateTable(ctx context.Context, db Execer) error {
	found := func() bool {
		var columns int
		return db.QueryRow(ctx, facts.GuardPostgresHasShared).Scan(&columns) == nil && columns > 0
	}
	if found() {
		return nil
	}
	_, err := db.Exec(ctx, facts.GuardPostgresCreate)
	if err == nil {
		_, err = db.Exec(ctx, facts.GuardPostgresAddShared)
	}
	// If several do so at the same moment, PostgreSQL may refuse all but one.
	if err != nil && !found() {
		return fmt.Errorf("fencepost: cannot create the table of fences: %w", err)
	}
	return nil
}

// Raise raises the fence of a lock. It must be the first statement of the transaction that writes.
//
// The error is a [*guard.StaleTokenError] if another holder has written, [guard.ErrNoSlot] for several permits of a
// semaphore, and otherwise wraps that of pgx. In all cases roll back. Under REPEATABLE READ and SERIALIZABLE, Raise and the statements that follow may fail with SQLSTATE 40001:
// run the whole transaction again.
func Raise(ctx context.Context, tx pgx.Tx, grant guard.Grant) error {
	stale := &guard.StaleTokenError{Name: grant.Name(), Token: grant.Token()}
	fence, err := guard.FenceName(grant)
	if err != nil {
		return err
	}
	var raised int64
	row := tx.QueryRow(ctx, facts.GuardPostgresRaise, fence, int64(grant.Token()), grant.GrantID())
	err = row.Scan(&raised)
	if err == nil {
		return nil
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = tx.QueryRow(ctx, facts.GuardPostgresNewest, fence).Scan(&stale.Newest)
	}
	if err != nil {
		return fmt.Errorf("fencepost: lock %q: cannot raise the fence: %w", grant.Name(), err)
	}
	return stale
}

// A Beginner begins transactions: a connection or a pool of pgx.
type Beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// RaiseShared raises the token of a shared lock, in a transaction of its own: within that of the work, readers would
// wait for one another. Call it once after the grant. It waits for the transactions that work under this lock at that
// time.
//
// The error is a [*guard.StaleTokenError] if a later writer has raised the fence, [guard.ErrNotShared] for a permit of a
// semaphore, and otherwise wraps that of pgx.
func RaiseShared(ctx context.Context, db Beginner, grant guard.Grant) error {
	if err := readers.Check(grant); err != nil {
		return err
	}
	err := pgx.BeginTxFunc(ctx, db, pgx.TxOptions{}, func(tx pgx.Tx) error {
		return passes(ctx, tx, facts.GuardPostgresRaiseShared, grant)
	})
	return readers.Wrapped(err, grant, "raise the shared token")
}

// CheckShared checks the token of a shared lock. It must be the first statement of each transaction that works under
// the lock. Until the end of the transaction writers wait, and other readers do not.
//
// The error is a [*guard.StaleTokenError] if a later writer has raised the fence, [guard.ErrNotRaised] if [RaiseShared]
// was not called, and otherwise wraps that of pgx. In all cases roll back. Under REPEATABLE READ and SERIALIZABLE,
// CheckShared and the statements that follow may fail with SQLSTATE 40001: run the whole transaction again.
func CheckShared(ctx context.Context, tx pgx.Tx, grant guard.Grant) error {
	if err := readers.Check(grant); err != nil {
		return err
	}
	return readers.Wrapped(passes(ctx, tx, facts.GuardPostgresCheckShared, grant), grant, "check the shared token")
}

// passes runs a statement of a reader, which returns a row unless the reader is refused.
func passes(ctx context.Context, tx pgx.Tx, text string, grant guard.Grant) error {
	var token int64
	err := tx.QueryRow(ctx, text, grant.Name(), int64(grant.Token()), grant.GrantID()).Scan(&token)
	if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	var newest uint64
	err = tx.QueryRow(ctx, facts.GuardPostgresNewest, grant.Name()).Scan(&newest)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return readers.Refused(grant, newest)
}
