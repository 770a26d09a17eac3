//go:build unix

package guard_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost-go/fenceposttest"
	"github.com/fencepost/fencepost-go/guard"
	"github.com/fencepost/fencepost-go/guard/pgxguard"
	"github.com/fencepost/fencepost-go/guard/sqlguard"
)

// isStale fails the test unless a store has refused the token of a grant, and named its highest one.
func isStale(t *testing.T, err error, g grant, newest uint64) {
	t.Helper()
	var stale *guard.StaleTokenError
	want := guard.StaleTokenError{Name: g.name, Token: g.token, Newest: newest}
	if !errors.Is(err, guard.ErrStaleToken) || !errors.As(err, &stale) || *stale != want {
		t.Fatalf("got %v, want %v", err, &want)
	}
}

func TestReadersHoldSideBySide(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, _, order string, orders store) {
		first, second := grant{order, "r11", 11}, grant{order, "r12", 12}
		must(t, orders.write(ctx, order, "written", grant{order, "w10", 10}))
		for _, reader := range []grant{second, first} {
			must(t, orders.raiseShared(ctx, reader))
			must(t, orders.work(ctx, order, reader.id, reader))
		}
		must(t, orders.raiseShared(ctx, second))
		must(t, orders.work(ctx, order, "both", first))
		// What the readers have read stays so: no earlier writer gets through, nor one with the token of a reader.
		for _, late := range []grant{{order, "w10", 10}, first, second} {
			isStale(t, orders.write(ctx, order, "late", late), late, 12)
		}
		for _, late := range []grant{{order, "r9", 9}, {order, "another", 10}} {
			isStale(t, orders.raiseShared(ctx, late), late, 12)
			isStale(t, orders.work(ctx, order, "late", late), late, 12)
		}
		expect(t, ctx, orders, order, "both")
		// After a later writer, the readers are stale.
		must(t, orders.write(ctx, order, "next", grant{order, "w13", 13}))
		for _, late := range []grant{first, second} {
			isStale(t, orders.raiseShared(ctx, late), late, 13)
			isStale(t, orders.work(ctx, order, "late", late), late, 13)
		}
		expect(t, ctx, orders, order, "next")
	})
}

func TestAReaderMayBeTheFirst(t *testing.T) {
	const highest = 1<<53 - 1
	each(t, func(t *testing.T, ctx context.Context, _, order string, orders store) {
		reader, early := grant{order, "r", highest - 1}, grant{order, "w", highest - 2}
		must(t, orders.raiseShared(ctx, reader))
		must(t, orders.work(ctx, order, "read", reader))
		isStale(t, orders.write(ctx, order, "late", early), early, highest-1)
		must(t, orders.write(ctx, order, "written", grant{order, "w", highest}))
		expect(t, ctx, orders, order, "written")
	})
}

func TestADowngradedWriterReadsWithItsToken(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, _, order string, orders store) {
		writer, another := grant{order, "g", 10}, grant{order, "another", 10}
		must(t, orders.write(ctx, order, "written", writer))
		must(t, orders.raiseShared(ctx, writer))
		must(t, orders.work(ctx, order, "read", writer))
		isStale(t, orders.write(ctx, order, "late", writer), writer, 10)
		isStale(t, orders.raiseShared(ctx, another), another, 10)
		isStale(t, orders.work(ctx, order, "late", another), another, 10)
		// An upgrade keeps the grant and draws a new token. A downgrade follows before anything is written.
		upgraded := grant{order, "g", 12}
		must(t, orders.raiseShared(ctx, upgraded))
		isStale(t, orders.write(ctx, order, "late", upgraded), upgraded, 12)
		must(t, orders.work(ctx, order, "read again", writer))
		expect(t, ctx, orders, order, "read again")
		must(t, orders.write(ctx, order, "written again", grant{order, "g", 13}))
		isStale(t, orders.work(ctx, order, "late", upgraded), upgraded, 13)
	})
}

// The guards read the token of a lock at each use.
func TestAConvertedLockIsGuardedWithItsNewToken(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, _, order string, orders store) {
		lock := fenceposttest.NewFakeLock(order, 10).Lock
		must(t, orders.write(ctx, order, "written", lock))
		must(t, lock.Downgrade(ctx))
		must(t, orders.raiseShared(ctx, lock))
		must(t, orders.work(ctx, order, "read", lock))
		upgraded, err := lock.TryUpgrade(ctx)
		must(t, err)
		if !upgraded {
			t.Fatal("nobody else shares the lock")
		}
		must(t, orders.write(ctx, order, "written again", lock))
		late := grant{order, lock.GrantID(), 10}
		isStale(t, orders.write(ctx, order, "late", late), late, 11)
		expect(t, ctx, orders, order, "written again")
	})
}

func TestWorkWithoutTheFirstStep(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, _, order string, orders store) {
		reader := grant{order, "r", 12}
		if err := orders.work(ctx, order, "read", reader); !errors.Is(err, guard.ErrNotRaised) {
			t.Fatalf("got %v", err)
		}
		must(t, orders.write(ctx, order, "written", grant{order, "w", 10}))
		if err := orders.work(ctx, order, "read", reader); !errors.Is(err, guard.ErrNotRaised) {
			t.Fatalf("got %v", err)
		}
		expect(t, ctx, orders, order, "written")
	})
}

// firstTables are the tables of the first version, which knew no shared locks.
var firstTables = map[string]string{
	"postgres": "CREATE TABLE fencepost_fences (lock_name VARCHAR(512) PRIMARY KEY, token BIGINT NOT NULL, " +
		"grant_id VARCHAR(36) NOT NULL)",
	"mysql": "CREATE TABLE fencepost_fences (lock_name VARBINARY(512) PRIMARY KEY, token BIGINT NOT NULL, " +
		"grant_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL)",
	"sqlite": "CREATE TABLE fencepost_fences (lock_name VARCHAR(512) PRIMARY KEY NOT NULL, token BIGINT NOT NULL, " +
		"grant_id VARCHAR(36) NOT NULL)",
}

// Many processes start at once, on a table of the first version or on none. Not parallel: it drops the table.
func TestManyCreateTheTable(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for kind, createFirst := range firstTables {
		for _, before := range []bool{true, false} {
			orders, err := openers[kind](addresses[kind])
			must(t, err)
			store := orders.(sqlStore)
			must(t, sqlguard.CreateTable(ctx, store.dialect, store.db))
			_, err = store.db.ExecContext(ctx, "DROP TABLE fencepost_fences")
			must(t, err)
			if before {
				_, err = store.db.ExecContext(ctx, createFirst)
				must(t, err)
				_, err = store.db.ExecContext(ctx, "INSERT INTO fencepost_fences VALUES ('a', 10, 'g')")
				must(t, err)
			}
			done := make(chan error)
			for range 6 {
				go func() { done <- createElsewhere(ctx, kind, store.dialect) }()
			}
			for range 6 {
				must(t, <-done)
			}
			must(t, store.raiseShared(ctx, grant{"a", "r", 12}))
			if before {
				isStale(t, store.raiseShared(ctx, grant{"a", "r", 9}), grant{"a", "r", 9}, 12)
			}
			must(t, store.close())
		}
	}
}

// createElsewhere creates the table over a connection of its own, with pgx if the database is PostgreSQL.
func createElsewhere(ctx context.Context, kind string, dialect sqlguard.Dialect) error {
	if dialect == sqlguard.Postgres {
		connection, err := pgx.Connect(ctx, addresses["pgx"])
		if err != nil {
			return err
		}
		defer func() { _ = connection.Close(ctx) }()
		return pgxguard.CreateTable(ctx, connection)
	}
	db, err := sql.Open(kind, addresses[kind])
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return sqlguard.CreateTable(ctx, dialect, db)
}
