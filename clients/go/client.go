package fencepost

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/fencepost/fencepost-go/internal/clock"
	"github.com/fencepost/fencepost-go/internal/facts"
)

const (
	// callTimeout is how long one transmission of a call may take, in addition to the wait that it asks for.
	callTimeout = 5 * time.Second
	// answerTimeMin is the least time that one of several servers gets to answer: over a slow network, a connection with
	// TLS alone takes several round trips.
	answerTimeMin = 500 * time.Millisecond
	// silenceMax is how long a transmission may take on a session on which nothing arrives meanwhile.
	silenceMax = 3 * time.Second
	// retryFor is how long a call is repeated while its outcome is unknown or no server can be reached, in addition to
	// the wait that it asks for.
	retryFor = facts.RetryForMS * time.Millisecond
	// linger is how long a session without leases and operations is kept open for the next ones.
	linger = facts.LingerMS * time.Millisecond
	// moveInterval is the minimum time between two moves away from a session that works, to the server that the last
	// failed call moved on to. All leases move with it; if the store is the cause, no server does better.
	moveInterval = 5 * time.Second
)

// A Client acquires locks of a Fencepost server and its replicas. All its locks share one session, a stream on which
// they are acquired, renewed and released. It is safe for concurrent use; a process needs one.
type Client struct {
	settings settings
	servers  *servers
	events   *eventLog
	// longestWait is the longest wait that servers are known to accept, in nanoseconds, for acquires without a bound.
	longestWait atomic.Int64
	// closing is done after Close: waits and calls end. shut is closed when background tasks have to end too, and
	// drained when the last task has ended after Close.
	closing       context.Context
	close         context.CancelFunc
	shut, drained chan struct{}
	// goroutines are those of sessions and of the keeper.
	goroutines sync.WaitGroup
	// wake tells the keeper that something has changed.
	wake chan struct{}

	// mu guards the following fields, sessions, and operations. It is held for a few instructions only, never across
	// a wait.
	mu      sync.Mutex
	leases  map[*lease]struct{}
	pending pendingQueue
	// releases is the number of releases without a result. Meanwhile their leases are not among the leases.
	releases int
	// current sends new operations and keeps all leases. previous goes on until current does.
	current, previous *session
	// shortest is the shortest TTL of all leases, pace that of those on the session; 0 if there are none.
	shortest, pace time.Duration
	// due is when to open the next session, once one is needed; moved when operations last left a session that works.
	due, moved, idleSince clock.Moment
	// tries is the number of sessions opened since one worked.
	tries int
	// lastFailure is why the last session failed; nil once the next one works.
	lastFailure *failure
	keeping     bool
	// tasks are the calls and the background tasks that have not ended.
	tasks                       int
	isClosed, isShut, isDrained bool
}

// New creates a client. It connects on first use, so no server needs to run yet. The error is one of the configuration.
func New(config Config) (*Client, error) {
	checked, err := config.check()
	if err != nil {
		return nil, err
	}
	closing, closeAll := context.WithCancel(context.Background())
	client := &Client{
		settings: checked,
		servers:  newServers(checked),
		events:   &eventLog{logger: checked.logger},
		closing:  closing,
		close:    closeAll,
		shut:     make(chan struct{}),
		drained:  make(chan struct{}),
		wake:     make(chan struct{}, 1),
		leases:   map[*lease]struct{}{},
	}
	client.longestWait.Store(int64(waitMax))
	return client, nil
}

// String returns the addresses of the servers.
func (c *Client) String() string {
	names := make([]string, 0, c.servers.count())
	for i := range c.servers.list {
		names = append(names, c.servers.name(i))
	}
	return "fencepost.Client(" + strings.Join(names, ", ") + ")"
}

// GoString is [Client.String].
func (c *Client) GoString() string { return c.String() }

// Close releases all locks that are held, ends all waits with [ErrClosed], and waits until the releases are answered,
// and the withdrawals of acquires that were given up, at most 10 s or until ctx is done; then it ends all goroutines and
// connections of the client. Stop the work that the locks protect first. A second call waits as well.
//
// The error says that one of them was not answered in time: that lock is free when its TTL is over. A process that ends
// without Close leaves all its locks to their TTLs.
func (c *Client) Close(ctx context.Context) error {
	if held, first := c.beginClose(); first {
		for _, each := range held {
			c.startRelease(each, ErrClosed)
		}
		c.finish()
	}
	bounded, cancel := context.WithTimeoutCause(ctx, retryFor, errors.New("no answer in time"))
	defer cancel()
	var err error
	select {
	case <-c.drained:
	case <-bounded.Done():
		err = fmt.Errorf("fencepost: closed before all locks were released: %w", context.Cause(bounded))
	}
	c.shutDown()
	c.goroutines.Wait()
	c.events.flush(bounded)
	return err
}

// beginClose ends the waits, and returns the leases to release. The first call counts as a task.
func (c *Client) beginClose() (held []*lease, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return nil, false
	}
	c.isClosed = true
	c.tasks++
	c.close()
	return slices.Collect(maps.Keys(c.leases)), true
}

// shutDown ends all sessions, and with them what still waits for an answer.
func (c *Client) shutDown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isShut {
		return
	}
	c.isShut = true
	close(c.shut)
	for _, open := range []*session{c.current, c.previous} {
		if open != nil {
			open.end(unavailable(bare(ErrClosed)))
		}
	}
	for _, op := range c.pending.drain() {
		op.finish(nil, &failure{code: codes.Unavailable, message: bare(ErrClosed), unsent: true})
	}
	c.servers.close()
	c.notify()
}

// begin counts a call, unless the client is closed.
func (c *Client) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return ErrClosed
	}
	c.tasks++
	return nil
}

// finish counts a call or a task that has ended.
func (c *Client) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tasks--
	// After Close, only tasks begin tasks.
	if c.tasks == 0 && c.isClosed && !c.isDrained {
		c.isDrained = true
		close(c.drained)
	}
}

// spawn runs a task that Close waits for. It reports whether it does: not after Close has ended. The mutex is held.
func (c *Client) spawn(task func()) bool {
	if c.isShut {
		return false
	}
	c.tasks++
	c.goroutines.Go(func() {
		defer c.finish()
		task()
	})
	return true
}

// background is spawn without the mutex.
func (c *Client) background(task func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spawn(task)
}

func (c *Client) closed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isClosed
}

// remember keeps a lease alive from now on. The mutex is held.
func (c *Client) remember(held *lease, now clock.Moment) {
	c.leases[held] = struct{}{}
	if c.shortest == 0 || held.ttl < c.shortest {
		c.shortest = held.ttl
		c.notify()
	}
	if c.pace == 0 || held.ttl < c.pace {
		c.pace = held.ttl
		if c.current != nil {
			// The interval of beats becomes shorter: silence counts from now.
			c.current.lastReceived = max(c.current.lastReceived, now)
		}
	}
}

// forget ends the care for a lease that has ended or is being released. The mutex is held.
func (c *Client) forget(held *lease) {
	delete(c.leases, held)
	if len(c.leases) == 0 {
		c.notify()
	}
}

// toldLost ends a lease of which a server reports that it has ended. It returns the end of the lease.
func (c *Client) toldLost(held *lease, lost *LostError) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	held.finish(clock.Now(), lost)
	c.forget(held)
	c.detachElsewhere(held, nil)
	return held.state(clock.Now()).end
}

// detachElsewhere stops the renewals of a lease on all sessions but one. The mutex is held.
func (c *Client) detachElsewhere(held *lease, except *session) {
	for _, open := range []*session{c.current, c.previous} {
		if open != nil && open != except && !open.ended {
			open.outbox.detach(held)
			open.notify()
		}
	}
}
