// Package redisguard has the guard for Redis through go-redis. See [guard] for the idea.
//
// Redis has no transaction that can be rolled back, so the guard and the write are one script:
//
//	var set = redisguard.NewScript(`return redis.call('SET', KEYS[2], ARGV[3])`)
//
//	err := set.Run(ctx, client, lock, "{orders/42}:fence", []string{"{orders/42}"}, "paid").Err()
package redisguard

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost-go/guard"
	"github.com/fencepost/fencepost-go/guard/internal/readers"
	"github.com/fencepost/fencepost-go/internal/facts"
)

// stalePrefix begins the error of the script if the token is stale. The newest token follows.
const stalePrefix = "STALE "

var raiseShared = redis.NewScript(facts.GuardRedisRaiseShared)

// A Script raises the fence of a lock, and then writes. Create it once.
type Script struct{ script, shared *redis.Script }

// NewScript creates a script. The text that writes has its keys in KEYS[2] and following, its arguments in ARGV[3] and
// following.
func NewScript(write string) *Script {
	return &Script{
		script: redis.NewScript(facts.GuardRedisRaise + "\n" + write),
		shared: redis.NewScript(facts.GuardRedisCheckShared + "\n" + write),
	}
}

// Run runs the script. The key of the fence must be in the same slot of a cluster as the other keys, and so have the
// same hash tag. The error of the result is a [*guard.StaleTokenError] if another holder has raised the fence. Then
// nothing was written. For one permit of a semaphore, the key of the fence is that of [guard.FenceKey].
func (s *Script) Run(
	ctx context.Context, client redis.Scripter, grant guard.Grant, fence string, keys []string, arguments ...any,
) *redis.Cmd {
	fence, err := guard.FenceKey(grant, fence)
	if err != nil {
		return failed(ctx, err)
	}
	return run(ctx, s.script, client, grant, fence, keys, arguments, stale)
}

// CheckShared runs the script under a shared lock, after [RaiseShared]. Its arguments are those of Run. The error of
// the result is a [*guard.StaleTokenError] if a later writer has raised the fence, and [guard.ErrNotRaised] if
// RaiseShared was not called. Then the script did not run.
func (s *Script) CheckShared(
	ctx context.Context, client redis.Scripter, grant guard.Grant, fence string, keys []string, arguments ...any,
) *redis.Cmd {
	if err := readers.Check(grant); err != nil {
		return failed(ctx, err)
	}
	return run(ctx, s.shared, client, grant, fence, keys, arguments, readers.Refused)
}

// RaiseShared raises the token of a shared lock. Call it once after the grant. The error is a [*guard.StaleTokenError]
// if a later writer has raised the fence.
func RaiseShared(ctx context.Context, client redis.Scripter, grant guard.Grant, fence string) error {
	if err := readers.Check(grant); err != nil {
		return err
	}
	err := run(ctx, raiseShared, client, grant, fence, nil, nil, readers.Refused).Err()
	if errors.Is(err, redis.Nil) {
		// The script has no result.
		return nil
	}
	return err
}

// failed is the result of a script that does not run.
func failed(ctx context.Context, err error) *redis.Cmd {
	result := redis.NewCmd(ctx)
	result.SetErr(err)
	return result
}

func stale(grant guard.Grant, newest uint64) error {
	return &guard.StaleTokenError{Name: grant.Name(), Token: grant.Token(), Newest: newest}
}

// run runs a script that begins with a guard. refused makes the error for the newest token.
func run(
	ctx context.Context, script *redis.Script, client redis.Scripter, grant guard.Grant, fence string, keys []string,
	arguments []any, refused func(guard.Grant, uint64) error,
) *redis.Cmd {
	keys = append([]string{fence}, keys...)
	arguments = append([]any{strconv.FormatUint(grant.Token(), 10), grant.GrantID()}, arguments...)
	result := script.Run(ctx, client, keys, arguments...)
	err := result.Err()
	if err == nil {
		return result
	}
	if text, ok := strings.CutPrefix(err.Error(), stalePrefix); ok {
		// With the name of a script, Redis adds more words.
		digits, _, _ := strings.Cut(text, " ")
		newest, err := strconv.ParseUint(digits, 10, 64)
		if err != nil {
			result.SetErr(fmt.Errorf("fencepost: lock %q: the fence %q is corrupt: %w", grant.Name(), fence, err))
			return result
		}
		result.SetErr(refused(grant, newest))
	}
	return result
}
