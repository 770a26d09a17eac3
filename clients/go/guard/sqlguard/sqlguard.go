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
	"github.com/fencepost/fencepost-go/guard/internal/readers"
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

// texts are the statements for one kind of database.
type texts struct {
	create, hasShared, addShared, raise, newest, raiseShared, checkShared, newestShared string
}

var statements = map[Dialect]texts{
	Postgres: {
		facts.GuardPostgresCreate, facts.GuardPostgresHasShared, facts.GuardPostgresAddShared,
		facts.GuardPostgresRaise, facts.GuardPostgresNewest,
		facts.GuardPostgresRaiseShared, facts.GuardPostgresCheckShared, facts.GuardPostgresNewest,
	},
	MySQL: {
		facts.GuardMysqlCreate, facts.GuardMysqlHasShared, facts.GuardMysqlAddShared,
		facts.GuardMysqlRaise, facts.GuardMysqlNewest,
		facts.GuardMysqlRaiseShared, facts.GuardMysqlCheckShared, facts.GuardMysqlNewestShared,
	},
	SQLite: {
		facts.GuardSqliteCreate, facts.GuardSqliteHasShared, facts.GuardSqliteAddShared,
		facts.GuardSqliteRaise, facts.GuardSqliteNewest,
		facts.GuardSqliteRaiseShared, facts.GuardSqliteCheckShared, facts.GuardSqliteNewest,
	},
}

var errDialect = errors.New("fencepost: the dialect must be Postgres, MySQL or SQLite")

// An Execer executes statements: a [*sql.DB], [*sql.Conn] or [*sql.Tx].
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// CreateTable creates the table fencepost_fences unless it exists, and adds what one of an earlier version lacks. Call
// it once when the program starts, or in a migration.
func CreateTable(ctx context.Context, dialect Dialect, db Execer) error {
	texts, ok := statements[dialect]
	if !ok {
		return errDialect
	}
	found := func() bool {
		var columns int
		return db.QueryRowContext(ctx, texts.hasShared).Scan(&columns) == nil && columns > 0
	}
	if found() {
		return nil
	}
	_, err := db.ExecContext(ctx, texts.create)
	if err == nil && !found() {
		_, err = db.ExecContext(ctx, texts.addShared)
	}
	// If several do so at the same moment, the database may refuse all but one.
	if err != nil && !found() {
		return fmt.Errorf("fencepost: cannot create the table of fences: %w", err)
	}
	return nil
}

// Raise raises the fence of a lock. It must be the first statement of the transaction that writes.
//
// The error is a [*guard.StaleTokenError] if another holder has written, [guard.ErrNoSlot] for several permits of a
// semaphore, and otherwise wraps that of the database. In all cases roll back.
func Raise(ctx context.Context, dialect Dialect, tx *sql.Tx, grant guard.Grant) error {
	stale := &guard.StaleTokenError{Name: grant.Name(), Token: grant.Token()}
	fence, err := guard.FenceName(grant)
	if err != nil {
		return err
	}
	switch dialect {
	case Postgres, SQLite:
		stale.Newest, err = raise(ctx, dialect, tx, fence, grant)
	case MySQL:
		stale.Newest, err = raiseMySQL(ctx, tx, fence, grant)
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
func raise(
	ctx context.Context, dialect Dialect, tx *sql.Tx, fence string, grant guard.Grant,
) (newest uint64, err error) {
	texts := statements[dialect]
	row := tx.QueryRowContext(ctx, texts.raise, fence, int64(grant.Token()), grant.GrantID())
	if err := row.Scan(&newest); !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	return newest, tx.QueryRowContext(ctx, texts.newest, fence).Scan(&newest)
}

func raiseMySQL(ctx context.Context, tx *sql.Tx, fence string, grant guard.Grant) (newest uint64, err error) {
	texts, token := statements[MySQL], grant.Token()
	if _, err := tx.ExecContext(ctx, texts.raise, fence, int64(token), grant.GrantID()); err != nil {
		return 0, err
	}
	// It is NULL if the newest token is that of a reader.
	var grantID sql.NullString
	if err := tx.QueryRowContext(ctx, texts.newest, fence).Scan(&newest, &grantID); err != nil {
		return 0, err
	}
	// Both are compared: equal ids alone would let a lower token pass if a caller gives grants the same id, or none.
	if newest == token && grantID.Valid && grantID.String == grant.GrantID() {
		return 0, nil
	}
	return newest, nil
}

// A Beginner begins transactions: a [*sql.DB] or a [*sql.Conn].
type Beginner interface {
	BeginTx(ctx context.Context, options *sql.TxOptions) (*sql.Tx, error)
}

// RaiseShared raises the token of a shared lock, in a transaction of its own: within that of the work, readers would
// wait for one another. Call it once after the grant. It waits for the transactions that work under this lock at that
// time.
//
// The error is a [*guard.StaleTokenError] if a later writer has raised the fence, [guard.ErrNotShared] for a permit of a
// semaphore, and otherwise wraps that of the database.
func RaiseShared(ctx context.Context, dialect Dialect, db Beginner, grant guard.Grant) error {
	texts, ok := statements[dialect]
	if !ok {
		return errDialect
	}
	if err := readers.Check(grant); err != nil {
		return err
	}
	err := raiseShared(ctx, dialect, texts, db, grant)
	return readers.Wrapped(err, grant, "raise the shared token")
}

func raiseShared(ctx context.Context, dialect Dialect, texts texts, db Beginner, grant guard.Grant) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	arguments := []any{grant.Name(), int64(grant.Token()), grant.GrantID()}
	if dialect == MySQL {
		// How many rows it has changed depends on the settings of the driver, so the row is read back.
		if _, err := tx.ExecContext(ctx, texts.raiseShared, arguments...); err != nil {
			return err
		}
		if err := checkShared(ctx, dialect, texts, tx, grant); err != nil {
			return err
		}
		return tx.Commit()
	}
	var raised int64
	err = tx.QueryRowContext(ctx, texts.raiseShared, arguments...).Scan(&raised)
	if errors.Is(err, sql.ErrNoRows) {
		err = refused(ctx, texts, tx, grant)
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}

// CheckShared checks the token of a shared lock. It must be the first statement of each transaction that works under
// the lock. Until the end of the transaction writers wait, and other readers do not.
//
// The error is a [*guard.StaleTokenError] if a later writer has raised the fence, [guard.ErrNotRaised] if [RaiseShared]
// was not called, and otherwise wraps that of the database. In all cases roll back.
func CheckShared(ctx context.Context, dialect Dialect, tx *sql.Tx, grant guard.Grant) error {
	texts, ok := statements[dialect]
	if !ok {
		return errDialect
	}
	if err := readers.Check(grant); err != nil {
		return err
	}
	return readers.Wrapped(checkShared(ctx, dialect, texts, tx, grant), grant, "check the shared token")
}

func checkShared(ctx context.Context, dialect Dialect, texts texts, tx *sql.Tx, grant guard.Grant) error {
	token := int64(grant.Token())
	arguments := []any{grant.Name(), token, grant.GrantID()}
	if dialect != Postgres {
		// Without numbers for the parameters, the token comes as often as it is compared.
		arguments = []any{grant.Name(), token, token, token, grant.GrantID()}
	}
	var writer int64
	err := tx.QueryRowContext(ctx, texts.checkShared, arguments...).Scan(&writer)
	if errors.Is(err, sql.ErrNoRows) {
		return refused(ctx, texts, tx, grant)
	}
	return err
}

// refused returns why a reader is refused.
func refused(ctx context.Context, texts texts, tx *sql.Tx, grant guard.Grant) error {
	var newest uint64
	err := tx.QueryRowContext(ctx, texts.newestShared, grant.Name()).Scan(&newest)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return readers.Refused(grant, newest)
}
