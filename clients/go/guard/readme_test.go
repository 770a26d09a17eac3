//go:build unix

package guard_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/fencepost/fencepost-go/guard"
	"github.com/fencepost/fencepost-go/guard/sqlguard"
)

// readmeRaise is the code of the README, word by word.
//
//nolint:errcheck // word by word
func readmeRaise(ctx context.Context, db *sql.DB, lock guard.Grant) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := sqlguard.Raise(ctx, sqlguard.Postgres, tx, lock); err != nil {
		return err // *guard.StaleTokenError has both tokens
	}
	// read, write
	return tx.Commit()
}

func TestTheCodeOfTheReadmeWorks(t *testing.T) {
	db, err := sql.Open("pgx", addresses["postgres"])
	must(t, err)
	defer func() { must(t, db.Close()) }()
	ctx := t.Context()
	must(t, sqlguard.CreateTable(ctx, sqlguard.Postgres, db))
	must(t, readmeRaise(ctx, db, grant{t.Name(), "b", 8}))
	err = readmeRaise(ctx, db, grant{t.Name(), "a", 7})
	var stale *guard.StaleTokenError
	if !errors.As(err, &stale) || stale.Token != 7 || stale.Newest != 8 {
		t.Fatalf("got %v", err)
	}
}
