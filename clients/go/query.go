package fencepost

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"google.golang.org/grpc/codes"

	pb "github.com/fencepost/fencepost-go/fencepost/v1"
	"github.com/fencepost/fencepost-go/internal/clock"
	"github.com/fencepost/fencepost-go/internal/facts"
)

// Get reads one lock: its holders, the time left, the number of waiters. It is a snapshot for people and dashboards; do
// not decide by it whether to write.
func (c *Client) Get(ctx context.Context, name string) (LockInfo, error) {
	if err := checkUTF8(name, "lock_name", name); err != nil {
		return LockInfo{}, err
	}
	answer, err := call(ctx, c, name, func(ctx context.Context, stub pb.LockServiceClient) (*pb.GetResponse, error) {
		return stub.Get(ctx, &pb.GetRequest{LockName: name})
	})
	if err != nil {
		return LockInfo{}, err
	}
	return lockInfo(answer.GetLock()), nil
}

// List iterates over the locks that are held or waited for and whose names begin with a prefix, in no particular order.
// A lock that is held during the whole listing appears; others may or may not. An error ends the iteration.
func (c *Client) List(ctx context.Context, prefix string) iter.Seq2[LockInfo, error] {
	return func(yield func(LockInfo, error) bool) {
		if err := checkUTF8("", "prefix", prefix); err != nil {
			yield(LockInfo{}, err)
			return
		}
		request := &pb.ListRequest{Prefix: prefix, PageSize: facts.PageSizeMax}
		for {
			list := func(ctx context.Context, stub pb.LockServiceClient) (*pb.ListResponse, error) {
				return stub.List(ctx, request)
			}
			page, err := call(ctx, c, "", list)
			if err != nil {
				yield(LockInfo{}, err)
				return
			}
			for _, lock := range page.GetLocks() {
				if !yield(lockInfo(lock), nil) {
					return
				}
			}
			if page.GetNextPageToken() == "" {
				return
			}
			request = &pb.ListRequest{Prefix: prefix, PageSize: facts.PageSizeMax, PageToken: page.GetNextPageToken()}
		}
	}
}

// CheckToken asks whether a token is that of a current lease, for stores that cannot keep the highest token themselves.
// Call it right before the write. The answer may be out of date when it arrives; only a comparison inside the store has
// no such gap.
func (c *Client) CheckToken(ctx context.Context, name string, token uint64) (TokenCheck, error) {
	if err := checkUTF8(name, "lock_name", name); err != nil {
		return TokenCheck{}, err
	}
	check := func(ctx context.Context, stub pb.LockServiceClient) (*pb.CheckTokenResponse, error) {
		return stub.CheckToken(ctx, &pb.CheckTokenRequest{LockName: name, FencingToken: token})
	}
	answer, err := call(ctx, c, name, check)
	if err != nil {
		return TokenCheck{}, err
	}
	return tokenCheck(answer), nil
}

// call makes a call that changes nothing, and repeats it over the servers until one answers, at most for 10 s.
func call[T any](
	ctx context.Context, c *Client, name string, send func(context.Context, pb.LockServiceClient) (T, error),
) (T, error) {
	var none T
	if err := c.begin(); err != nil {
		return none, err
	}
	defer c.finish()
	var pauses retryPauses
	var answered *failure
	b := bound{ctx: ctx, stop: c.closing.Done(), until: clock.Now().Add(retryFor)}
	for {
		answer, failed := callOnce(ctx, c, send)
		if failed == nil {
			return answer, nil
		}
		if ctx.Err() != nil {
			return none, doneError(name, ctx, failed, answered)
		}
		if failed.isAnswer() {
			answered = failed
		}
		if c.closing.Err() != nil {
			return none, ErrClosed
		}
		pause := pauses.next(failed.retryAfter)
		if !failed.isTransient() || b.until.Sub(clock.Now()) <= pause {
			return none, failed.after(answered).public(name)
		}
		if err := b.pause(pause); errors.Is(err, ErrClosed) {
			return none, ErrClosed
		} else if err != nil {
			return none, doneError(name, ctx, failed, answered)
		}
	}
}

// callOnce makes one transmission to the preferred server.
func callOnce[T any](
	ctx context.Context, c *Client, send func(context.Context, pb.LockServiceClient) (T, error),
) (T, *failure) {
	var none T
	server := c.servers.current()
	connection, err := c.servers.borrow(server)
	if err != nil {
		return none, failureOf(err)
	}
	bounded, cancel := context.WithTimeout(ctx, c.servers.answerTime())
	defer cancel()
	defer context.AfterFunc(c.closing, cancel)()
	answer, err := send(bounded, connection.stub())
	defer c.servers.giveBack(connection)
	if err == nil {
		c.servers.works(server)
		return answer, nil
	}
	return none, c.callFailed(ctx, connection, err)
}

// callFailed reads the error of a call. A connection and a server without an answer are left.
func (c *Client) callFailed(ctx context.Context, connection *sharedConn, err error) *failure {
	if ctx.Err() != nil || c.closing.Err() != nil {
		// The connection may be the reason why the time of the caller is over.
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			c.servers.retire(connection)
		}
		return failureOf(err)
	}
	known := c.servers.isTroubled(connection.server)
	failed := c.servers.failureOf(connection.server, err)
	if failed.reason == "" {
		c.servers.retire(connection)
	}
	if failed.isTransient() {
		c.moveOn(connection.server, failed, known)
	}
	return failed
}

// doneError is the error of a call whose context is done. A server may have answered an earlier transmission.
func doneError(name string, ctx context.Context, failed, answered *failure) error {
	if failed.code == codes.Canceled || failed.code == codes.DeadlineExceeded {
		return withAnswer(fmt.Errorf("fencepost: %s%w", subject(name), ctx.Err()), answered)
	}
	return fmt.Errorf("fencepost: %s%w: %w", subject(name), ctx.Err(), failed.after(answered))
}

func subject(name string) string {
	if name == "" {
		return ""
	}
	return name + ": "
}
