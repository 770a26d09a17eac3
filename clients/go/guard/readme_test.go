//go:build unix

package guard_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// A new module beside a clone of the repository, with the lines of the README and nothing else.
func TestTheLinesOfTheReadmeForGoModAreEnough(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	must(t, err)
	var lines []string
	for line := range strings.Lines(string(readme)) {
		if strings.HasPrefix(line, "    require ") || strings.HasPrefix(line, "    replace ") {
			lines = append(lines, line)
		}
	}
	clone, err := filepath.Abs("../../..")
	must(t, err)
	manifest := "module example\n\ngo 1.26.0\n\n" +
		strings.ReplaceAll(strings.Join(lines, ""), "../fencepost/", clone+"/")
	program := "package main\n\nimport (\n\t_ \"github.com/fencepost/fencepost-go\"\n" +
		"\t_ \"github.com/fencepost/fencepost-go/guard/sqlguard\"\n)\n\nfunc main() {}\n"
	sums, err := os.ReadFile("go.sum")
	must(t, err)
	folder := t.TempDir()
	for name, text := range map[string]string{"go.mod": manifest, "main.go": program, "go.sum": string(sums)} {
		must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	build := exec.Command("go", "build", "-mod=mod", "-o", os.DevNull, ".")
	build.Dir = folder
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s\n%s", manifest, output)
	}
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
	if !errors.As(err, &stale) || stale.Token != 7 || stale.Newest != 8 ||
		stale.Error() != "fencepost: token 7 of "+t.Name()+" is stale: the store has seen 8" {
		t.Fatalf("got %v", err)
	}
}
