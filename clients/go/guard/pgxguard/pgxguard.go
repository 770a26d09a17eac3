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
	"github.com/fencepost/fencepost-go/internal/facts"
)

// An Execer executes statements: a connection, a pool, or a transaction of pgx.
type Execer interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
}

// CreateTable creates the table fencepost_fences unless it exists. Call it once when the program starts, or in a
// migration.
func CreateTable(ctx context.Context, db Execer) error {
	_, err := db.Exec(ctx, facts.GuardPostgresCreate)
	if err != nil {
		// If several create it at the same moment, PostgreSQL refuses all but one. The next attempt finds the table.
		if _, again := db.Exec(ctx, facts.GuardPostgresCreate); again == nil {
			return nil
		}
		return fmt.Errorf("fencepost: cannot create the table of fences: %w", err)
	}
	return nil
}

// Raise raises the fence of a lock. It must be the first statement of the transaction that writes.
//
// The error is a [*guard.StaleTokenError] if another holder has written, and otherwise wraps that of pgx. In both cases
// roll back. Under REPEATABLE READ and SERIALIZABLE, Raise and the statements that follow may fail with SQLSTATE 40001:
// run the whole transaction again.
func Raise(ctx context.Context, tx pgx.Tx, grant guard.Grant) error {
	stale := &guard.StaleTokenError{Name: grant.Name(), Token: grant.Token()}
	var raised int64
	row := tx.QueryRow(ctx, facts.GuardPostgresRaise, grant.Name(), int64(grant.Token()), grant.GrantID())
	err := row.Scan(&raised)
	if err == nil {
		return nil
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = tx.QueryRow(ctx, facts.GuardPostgresNewest, grant.Name()).Scan(&stale.Newest)
	}
	if err != nil {
		return fmt.Errorf("fencepost: lock %q: cannot raise the fence: %w", grant.Name(), err)
	}
	return stale
}
