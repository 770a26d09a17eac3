//go:build unix

package guard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
	"github.com/fencepost/fencepost-go/guard"
)

const (
	// childVariable makes this program the holder that is stopped: the store, its address, the lock server, the order.
	childVariable = "FENCEPOST_TEST_CHILD"
	// patience bounds all waits: far more than any of them takes.
	patience = 60 * time.Second
)

// addresses are those of the stores.
var addresses = map[string]string{}

func TestMain(m *testing.M) {
	if role := os.Getenv(childVariable); role != "" {
		arguments := strings.Split(role, "\n")
		if err := holdAndWrite(arguments[0], arguments[1], arguments[2], arguments[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(withStores(m.Run))
}

// withStores runs the tests with the real servers that clients/stores.py starts and stops.
func withStores(run func() int) int {
	servers := exec.Command("python3", "../../stores.py")
	servers.Stderr = os.Stderr
	end, err := servers.StdinPipe()
	check(err)
	output, err := servers.StdoutPipe()
	check(err)
	check(servers.Start())
	defer func() {
		_ = end.Close()
		_ = servers.Wait()
	}()
	var started struct {
		Postgres, Redis string
		MySQL           struct {
			Host, User, Password, Database string
			Port                           int
		}
	}
	check(json.NewDecoder(output).Decode(&started))
	config := mysql.NewConfig()
	config.Net, config.Addr = "tcp", fmt.Sprintf("%s:%d", started.MySQL.Host, started.MySQL.Port)
	config.User, config.Passwd, config.DBName = started.MySQL.User, started.MySQL.Password, started.MySQL.Database
	folder, err := os.MkdirTemp("", "fencepost-guard-")
	check(err)
	defer func() { _ = os.RemoveAll(folder) }()
	addresses = map[string]string{
		"postgres": started.Postgres, "pgx": started.Postgres, "mysql": config.FormatDSN(), "redis": started.Redis,
		"sqlite": "file:" + filepath.Join(folder, "orders.db") + "?_txlock=immediate&_pragma=busy_timeout(10000)",
	}
	return run()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// holdAndWrite is the holder that is stopped: it has the lock, and is about to write. For each line that it reads it
// writes, with the guard or without, and says how that went.
func holdAndWrite(kind, address, server, order string) error {
	orders, err := openers[kind](address)
	if err != nil {
		return err
	}
	client, err := fencepost.New(fencepost.Config{Servers: []string{server}})
	if err != nil {
		return err
	}
	lock, err := client.Acquire(context.Background(), order, fencepost.WithTTL(time.Second))
	if err != nil {
		return err
	}
	fmt.Println(lock.Token())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var grant guard.Grant
		if lines.Text() == "guarded" {
			grant = lock
		}
		err := orders.write(context.Background(), order, "late", grant)
		var stale *guard.StaleTokenError
		switch {
		case errors.As(err, &stale):
			fmt.Println("stale", stale.Name, stale.Token, stale.Newest)
		case err != nil:
			return err
		default:
			fmt.Println("written")
		}
	}
	return nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// each runs a test with each store, and an order of its own.
func each(t *testing.T, test func(t *testing.T, ctx context.Context, kind, order string, orders store)) {
	for kind, open := range openers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			t.Cleanup(cancel)
			orders, err := open(addresses[kind])
			must(t, err)
			t.Cleanup(func() { must(t, orders.close()) })
			order := t.Name()
			must(t, orders.prepare(ctx, order))
			test(t, ctx, kind, order, orders)
		})
	}
}

func expect(t *testing.T, ctx context.Context, orders store, order, want string) {
	t.Helper()
	got, err := orders.read(ctx, order)
	must(t, err)
	if got != want {
		t.Fatalf("the order is %q, not %q", got, want)
	}
}

// A holder is stopped past its lease, and then writes: that is refused, and goes through without the guard.
func TestALateWriteIsRefused(t *testing.T) {
	server := fenceposttest.Start(t)
	each(t, func(t *testing.T, ctx context.Context, kind, order string, orders store) {
		self, err := os.Executable()
		must(t, err)
		late := exec.Command(self)
		late.Env = append(os.Environ(), childVariable+"="+
			strings.Join([]string{kind, addresses[kind], server.Address, order}, "\n"))
		late.Stderr = os.Stderr
		in, err := late.StdinPipe()
		must(t, err)
		out, err := late.StdoutPipe()
		must(t, err)
		must(t, late.Start())
		defer func() {
			_ = late.Process.Kill()
			_ = late.Wait()
		}()
		lines := bufio.NewScanner(out)
		next := func() string {
			if !lines.Scan() {
				t.Fatal("the late holder has ended")
			}
			return lines.Text()
		}
		token := next()
		must(t, late.Process.Signal(syscall.SIGSTOP))

		client, err := fencepost.New(fencepost.Config{Servers: []string{server.Address}})
		must(t, err)
		defer func() { must(t, client.Close(ctx)) }()
		lock, err := client.Acquire(ctx, order, fencepost.WithWaitUntilDone())
		must(t, err)
		must(t, orders.write(ctx, order, "done", lock))

		must(t, late.Process.Signal(syscall.SIGCONT))
		_, err = io.WriteString(in, "guarded\n")
		must(t, err)
		if got, want := next(), fmt.Sprint("stale ", order, " ", token, " ", lock.Token()); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
		expect(t, ctx, orders, order, "done")

		// The control.
		_, err = io.WriteString(in, "plain\n")
		must(t, err)
		if got := next(); got != "written" {
			t.Fatal(got)
		}
		expect(t, ctx, orders, order, "late")
	})
}

// A grant is one with a name, a token and an id.
type grant struct {
	name, id string
	token    uint64
}

func (g grant) Name() string    { return g.name }
func (g grant) Token() uint64   { return g.token }
func (g grant) GrantID() string { return g.id }

func TestAFenceOnlyRises(t *testing.T) {
	const highest = 1<<53 - 1
	each(t, func(t *testing.T, ctx context.Context, _, order string, orders store) {
		passes := func(g grant) {
			t.Helper()
			must(t, orders.write(ctx, order, g.id, g))
			expect(t, ctx, orders, order, g.id)
		}
		refused := func(g grant, newest uint64) {
			t.Helper()
			before, err := orders.read(ctx, order)
			must(t, err)
			err = orders.write(ctx, order, g.id, g)
			var stale *guard.StaleTokenError
			if !errors.Is(err, guard.ErrStaleToken) || !errors.As(err, &stale) ||
				*stale != (guard.StaleTokenError{Name: g.name, Token: g.token, Newest: newest}) {
				t.Fatalf("got %v", err)
			}
			expect(t, ctx, orders, order, before)
		}
		passes(grant{order, "a", 7})
		passes(grant{order, "a", 7})
		refused(grant{order, "b", 7}, 7)
		refused(grant{order, "b", 6}, 7)
		// A lower token never passes, whatever its id.
		refused(grant{order, "a", 6}, 7)
		passes(grant{order, "c", highest})
		refused(grant{order, "b", highest - 1}, highest)
		// Names are compared byte by byte.
		for _, name := range []string{strings.ToUpper(order), order + " ", order + "é", order + "e\u0301"} {
			passes(grant{name, "d", 1})
			refused(grant{name, "e", 1}, 1)
		}
	})
}
