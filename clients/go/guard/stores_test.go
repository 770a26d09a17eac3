//go:build unix

package guard_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	"github.com/fencepost/fencepost-go/guard"
	"github.com/fencepost/fencepost-go/guard/pgxguard"
	"github.com/fencepost/fencepost-go/guard/redisguard"
	"github.com/fencepost/fencepost-go/guard/sqlguard"
)

// A store keeps the state of an order.
type store interface {
	// prepare creates the tables, and an order that is new.
	prepare(ctx context.Context, order string) error
	// write writes the state of an order, and raises the fence of the grant first unless the grant is nil.
	write(ctx context.Context, order, state string, grant guard.Grant) error
	// raiseShared takes the first step of a reader, and work writes in a transaction that begins with the second one.
	raiseShared(ctx context.Context, grant guard.Grant) error
	work(ctx context.Context, order, state string, grant guard.Grant) error
	read(ctx context.Context, order string) (string, error)
	close() error
}

// openers open the stores, each at its address.
var openers = map[string]func(address string) (store, error){
	"postgres": openSQL("pgx", sqlguard.Postgres),
	"mysql":    openSQL("mysql", sqlguard.MySQL),
	"sqlite":   openSQL("sqlite", sqlguard.SQLite),
	"pgx": func(address string) (store, error) {
		connection, err := pgx.Connect(context.Background(), address)
		return pgxStore{connection}, err
	},
	"redis": func(address string) (store, error) {
		options, err := redis.ParseURL(address)
		if err != nil {
			return nil, err
		}
		return redisStore{redis.NewClient(options)}, nil
	},
}

const (
	createOrders = "CREATE TABLE IF NOT EXISTS orders (name VARCHAR(64) PRIMARY KEY, state VARCHAR(64) NOT NULL)"
	insertOrder  = "INSERT INTO orders (name, state) VALUES (%s, 'new')"
	updateOrder  = "UPDATE orders SET state = %s WHERE name = %s"
	selectOrder  = "SELECT state FROM orders WHERE name = %s"
)

// creating has one test at a time create the table of orders, which PostgreSQL requires.
var creating sync.Mutex

type sqlStore struct {
	db      *sql.DB
	dialect sqlguard.Dialect
	// first and second are how the parameters are written.
	first, second string
}

func openSQL(driver string, dialect sqlguard.Dialect) func(string) (store, error) {
	return func(address string) (store, error) {
		db, err := sql.Open(driver, address)
		if dialect == sqlguard.Postgres {
			return sqlStore{db, dialect, "$1", "$2"}, err
		}
		return sqlStore{db, dialect, "?", "?"}, err
	}
}

func (s sqlStore) prepare(ctx context.Context, order string) error {
	if err := sqlguard.CreateTable(ctx, s.dialect, s.db); err != nil {
		return err
	}
	creating.Lock()
	defer creating.Unlock()
	if _, err := s.db.ExecContext(ctx, createOrders); err != nil {
		return err
	}
	_, err := s.db.ExecContext(ctx, fmt.Sprintf(insertOrder, s.first), order)
	return err
}

func (s sqlStore) write(ctx context.Context, order, state string, grant guard.Grant) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if grant != nil {
		if err := sqlguard.Raise(ctx, s.dialect, tx, grant); err != nil {
			return err
		}
	}
	return s.update(ctx, tx, order, state)
}

func (s sqlStore) update(ctx context.Context, tx *sql.Tx, order, state string) error {
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(updateOrder, s.first, s.second), state, order); err != nil {
		return err
	}
	return tx.Commit()
}

func (s sqlStore) raiseShared(ctx context.Context, grant guard.Grant) error {
	return sqlguard.RaiseShared(ctx, s.dialect, s.db, grant)
}

func (s sqlStore) work(ctx context.Context, order, state string, grant guard.Grant) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := sqlguard.CheckShared(ctx, s.dialect, tx, grant); err != nil {
		return err
	}
	return s.update(ctx, tx, order, state)
}

func (s sqlStore) read(ctx context.Context, order string) (state string, err error) {
	return state, s.db.QueryRowContext(ctx, fmt.Sprintf(selectOrder, s.first), order).Scan(&state)
}

func (s sqlStore) close() error { return s.db.Close() }

type pgxStore struct{ connection *pgx.Conn }

func (s pgxStore) prepare(ctx context.Context, order string) error {
	if err := pgxguard.CreateTable(ctx, s.connection); err != nil {
		return err
	}
	creating.Lock()
	defer creating.Unlock()
	if _, err := s.connection.Exec(ctx, createOrders); err != nil {
		return err
	}
	_, err := s.connection.Exec(ctx, fmt.Sprintf(insertOrder, "$1"), order)
	return err
}

func (s pgxStore) write(ctx context.Context, order, state string, grant guard.Grant) error {
	return pgx.BeginFunc(ctx, s.connection, func(tx pgx.Tx) error {
		if grant != nil {
			if err := pgxguard.Raise(ctx, tx, grant); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, fmt.Sprintf(updateOrder, "$1", "$2"), state, order)
		return err
	})
}

func (s pgxStore) raiseShared(ctx context.Context, grant guard.Grant) error {
	return pgxguard.RaiseShared(ctx, s.connection, grant)
}

func (s pgxStore) work(ctx context.Context, order, state string, grant guard.Grant) error {
	return pgx.BeginFunc(ctx, s.connection, func(tx pgx.Tx) error {
		if err := pgxguard.CheckShared(ctx, tx, grant); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, fmt.Sprintf(updateOrder, "$1", "$2"), state, order)
		return err
	})
}

func (s pgxStore) read(ctx context.Context, order string) (state string, err error) {
	return state, s.connection.QueryRow(ctx, fmt.Sprintf(selectOrder, "$1"), order).Scan(&state)
}

func (s pgxStore) close() error { return s.connection.Close(context.Background()) }

var setOrder = redisguard.NewScript(`return redis.call('SET', KEYS[2], ARGV[3])`)

type redisStore struct{ client *redis.Client }

func (s redisStore) prepare(ctx context.Context, order string) error {
	return s.client.Set(ctx, order, "new", 0).Err()
}

func (s redisStore) write(ctx context.Context, order, state string, grant guard.Grant) error {
	if grant == nil {
		return s.client.Set(ctx, order, state, 0).Err()
	}
	return setOrder.Run(ctx, s.client, grant, "fence:"+grant.Name(), []string{order}, state).Err()
}

func (s redisStore) raiseShared(ctx context.Context, grant guard.Grant) error {
	return redisguard.RaiseShared(ctx, s.client, grant, "fence:"+grant.Name())
}

func (s redisStore) work(ctx context.Context, order, state string, grant guard.Grant) error {
	return setOrder.CheckShared(ctx, s.client, grant, "fence:"+grant.Name(), []string{order}, state).Err()
}

func (s redisStore) read(ctx context.Context, order string) (string, error) {
	return s.client.Get(ctx, order).Result()
}

func (s redisStore) close() error { return s.client.Close() }
