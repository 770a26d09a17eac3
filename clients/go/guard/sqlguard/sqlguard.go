// Package sqlguard has the guard for database/sql. See [guard] for how it is used.
//
//	tx, err := db.BeginTx(ctx, nil)
//	if err != nil {
//		return err
//	}
//	defer tx.Rollback()
//	if err := sqlguard.Raise(ctx, sqlguard.Postgres, tx, lock); err != nil {
//		return err
//	}
//	// read, write
//	return tx.Commit()
package sqlguard

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fencepost/fencepost-go/guard"
	"github.com/fencepost/fencepost-go/internal/facts"
)

// A Dialect is the kind of a database.
type Dialect int

// The kinds of databases.
const (
	// Postgres is PostgreSQL. Under REPEATABLE READ and SERIALIZABLE, Raise and the statements that follow may fail with
	// SQLSTATE 40001: run the whole transaction again.
	Postgres Dialect = iota + 1
	// MySQL is MySQL or MariaDB. The character set of the connection has to be utf8mb4, the default of the driver.
	MySQL
	// SQLite is SQLite 3.35 or later. The transaction should begin with BEGIN IMMEDIATE (_txlock=immediate).
	SQLite
)

var statements = map[Dialect]struct{ create, raise, newest string }{
	Postgres: {facts.GuardPostgresCreate, facts.GuardPostgresRaise, facts.GuardPostgresNewest},
	MySQL:    {facts.GuardMysqlCreate, facts.GuardMysqlRaise, facts.GuardMysqlNewest},
	SQLite:   {facts.GuardSqliteCreate, facts.GuardSqliteRaise, facts.GuardSqliteNewest},
}

var errDialect = errors.New("fencepost: the dialect must be Postgres, MySQL or SQLite")

// An Execer executes statements: a [*sql.DB], [*sql.Conn] or [*sql.Tx].
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// CreateTable creates the table fencepost_fences unless it exists. Call it once when the program starts, or in a
// migration.
func CreateTable(ctx context.Context, dialect Dialect, db Execer) error {
	texts, ok := statements[dialect]
	if !ok {
		return errDialect
	}
	_, err := db.ExecContext(ctx, texts.create)
	if err != nil && dialect == Postgres {
		// If several create it at the same moment, PostgreSQL refuses all but one. The next attempt finds the table.
		if _, again := db.ExecContext(ctx, texts.create); again == nil {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("fencepost: cannot create the table of fences: %w", err)
	}
	return nil
}

// Raise raises the fence of a lock. It must be the first statement of the transaction that writes.
//
// The error is a [*guard.StaleTokenError] if another holder has written, and otherwise wraps that of the database. In
// both cases roll back.
func Raise(ctx context.Context, dialect Dialect, tx *sql.Tx, grant guard.Grant) error {
	stale := &guard.StaleTokenError{Name: grant.Name(), Token: grant.Token()}
	var err error
	switch dialect {
	case Postgres, SQLite:
		stale.Newest, err = raise(ctx, dialect, tx, grant)
	case MySQL:
		stale.Newest, err = raiseMySQL(ctx, tx, grant)
	default:
		return errDialect
	}
	if err != nil {
		return fmt.Errorf("fencepost: lock %q: cannot raise the fence: %w", grant.Name(), err)
	}
	if stale.Newest != 0 {
		return stale
	}
	return nil
}

// raise returns the newest token if that of the grant is stale, otherwise 0.
func raise(ctx context.Context, dialect Dialect, tx *sql.Tx, grant guard.Grant) (newest uint64, err error) {
	texts := statements[dialect]
	row := tx.QueryRowContext(ctx, texts.raise, grant.Name(), int64(grant.Token()), grant.GrantID())
	if err := row.Scan(&newest); !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	return newest, tx.QueryRowContext(ctx, texts.newest, grant.Name()).Scan(&newest)
}

func raiseMySQL(ctx context.Context, tx *sql.Tx, grant guard.Grant) (newest uint64, err error) {
	texts := statements[MySQL]
	if _, err := tx.ExecContext(ctx, texts.raise, grant.Name(), int64(grant.Token()), grant.GrantID()); err != nil {
		return 0, err
	}
	var grantID string
	if err := tx.QueryRowContext(ctx, texts.newest, grant.Name()).Scan(&newest, &grantID); err != nil {
		return 0, err
	}
	// Both are compared: equal ids alone would let a lower token pass if a caller gives grants the same id, or none.
	if newest == grant.Token() && grantID == grant.GrantID() {
		return 0, nil
	}
	return newest, nil
}
