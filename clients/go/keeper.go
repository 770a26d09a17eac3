package fencepost

import (
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/fencepost/fencepost-go/internal/clock"
)

// The keeper is the goroutine that watches leases and sessions. It does not renew: the server sets the pace, and the
// sessions answer. If a session goes silent, or beats arrive but renewals do not, or it ends or drains, the keeper
// opens one with the next server, which attaches all leases with higher attempt numbers. The old session goes on until
// the new one keeps all leases, and its operations are answered. All of this must fit into the TTL.
//
// It runs while there is something to keep, and closes the session soon after the last lease and operation.

// notify wakes the keeper.
func (c *Client) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// ensureKeeper starts the keeper unless it runs. The mutex is held.
func (c *Client) ensureKeeper() {
	if c.keeping || c.isShut {
		return
	}
	c.keeping = true
	c.goroutines.Go(c.keep)
}

func (c *Client) keep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		pause, more := c.checkNow()
		if !more {
			return
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-c.wake:
		}
	}
}

// checkNow checks leases and sessions. It returns the time until the next check, and false if nothing is left to do.
func (c *Client) checkNow() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pause, more := time.Duration(0), false
	if !c.isShut {
		pause, more = c.check(clock.Now())
	}
	c.keeping = more
	return pause, more
}

func (c *Client) check(now clock.Moment) (time.Duration, bool) {
	pause, stuck := c.checkLeases(now)
	c.retirePrevious(now)
	if len(c.leases) == 0 && c.pending.len() == 0 && !c.hasOperations() {
		return c.checkIdle(now)
	}
	c.idleSince = 0
	current := c.current
	// Sessions to a server that drains must not be opened quickly, even if they work.
	if current != nil && current.works() && !current.draining {
		c.tries = 0
	}
	needed := current == nil || current.ended || current.draining || stuck || current.isSilent(now, c.pace) ||
		c.shouldMove(now)
	if !needed {
		c.due = 0
		return pause, true
	}
	if c.due == 0 {
		c.due = now
		if current != nil {
			c.due = max(now.Add(randomPart(reconnectPause(c.shortest, c.tries/c.servers.count()))), current.reopenAt)
		}
	}
	if now < c.due {
		return min(pause, c.due.Sub(now)), true
	}
	if current != nil {
		c.leave(current, now, stuck)
	}
	c.open(now)
	return pause, true
}

// leave moves on from the server of a session that is to be replaced.
func (c *Client) leave(current *session, now clock.Moment, stuck bool) {
	silence := now.Sub(current.lastReceived).Round(time.Millisecond)
	found := &finding{text: fmt.Sprintf(": nothing has arrived for %v", silence)}
	switch {
	case current.refused != nil && current.refused.isOverQuota():
		return
	case current.ended || current.draining:
		c.servers.failed(current.server)
		return
	case current.isSilent(now, c.pace):
	case stuck:
		found = &finding{text: ": it does not renew"}
	default:
		c.servers.failed(current.server)
		return
	}
	known := c.servers.isTroubled(current.server)
	c.lastFailure = c.servers.unreached(current.server, codes.Unavailable, found)
	c.moveOn(current.server, c.lastFailure, known)
}

// moveOn leaves a server that failed for the next one, and tells of it unless the failure is known.
func (c *Client) moveOn(from int, why *failure, known bool) {
	c.servers.failed(from)
	if known {
		return
	}
	cause := why.Error()
	if why.found != nil {
		cause = why.found.diagnosis()
	}
	c.events.moved(c.servers.name(from), c.servers.name(c.servers.current()), cause)
}

// shouldMove reports whether calls have moved on to another server than that of the session.
func (c *Client) shouldMove(now clock.Moment) bool {
	recently := c.moved != 0 && now.Sub(c.moved) < moveInterval
	return c.current.server != c.servers.current() && !recently
}

// open opens a session with the preferred server, which attaches all leases.
func (c *Client) open(now clock.Moment) {
	next := newSession(c, c.servers.current(), now)
	type due struct {
		lease *lease
		left  time.Duration
	}
	leases := make([]due, 0, len(c.leases))
	for held := range c.leases {
		if !held.attachments.single {
			leases = append(leases, due{held, held.state(now).left})
		}
	}
	// Those that end first go first.
	slices.SortFunc(leases, func(a, b due) int { return int(a.left - b.left) })
	for _, each := range leases {
		next.outbox.attach(each.lease, now)
	}
	replaced := c.current
	c.current, c.due = next, 0
	c.tries++
	c.goroutines.Go(next.run)
	if replaced == nil {
		return
	}
	if replaced.works() && !replaced.draining {
		c.moved = now
	}
	// The replaced session goes on if it renews at least as many leases as the one before.
	worse := c.previous
	if replaced.isUseful() && (worse == nil || replaced.renews(now) >= worse.renews(now)) {
		c.previous = replaced
	} else {
		worse = replaced
	}
	if worse != nil {
		worse.end(unavailable("the session was replaced"))
	}
}

// goBack leaves a session that was refused. The quota may count the previous one: that goes on, or makes room.
func (c *Client) goBack(refused *session, now clock.Moment) {
	previous := c.previous
	if refused != c.current || previous == nil || previous.server != refused.server {
		return
	}
	c.previous = nil
	if !previous.works() || previous.draining || previous.isSilent(now, previous.pace(now)) {
		previous.end(unavailable("the session was replaced"))
		return
	}
	c.current = previous
	for held := range c.leases {
		if !held.attachments.single {
			previous.outbox.attach(held, now) // again: the refused session has higher attempt numbers
		}
	}
	previous.notify() // it carries all operations from now on
}

// retirePrevious ends the previous session when it is no longer needed.
func (c *Client) retirePrevious(now clock.Moment) {
	previous := c.previous
	if previous == nil {
		return
	}
	idle := len(c.leases) == 0 && c.releases == 0 && c.pending.prompt.Len() == 0
	takenOver := idle || c.current != nil && c.current.keepsAll()
	needed := (len(previous.outbox.operations) > 0 || !takenOver) && !previous.isSilent(now, previous.pace(now))
	if previous.ended || (idle || c.current != nil && c.current.works()) && !needed {
		c.previous = nil
		previous.end(unavailable("the session was replaced"))
	}
}

// hasOperations reports whether a session has operations in flight.
func (c *Client) hasOperations() bool {
	for _, open := range []*session{c.current, c.previous} {
		if open != nil && len(open.outbox.operations) > 0 {
			return true
		}
	}
	return false
}

// checkIdle ends the session some time after the last lease and operation.
func (c *Client) checkIdle(now clock.Moment) (time.Duration, bool) {
	if c.idleSince == 0 {
		c.idleSince = now
	}
	if left := c.idleSince.Add(linger).Sub(now); left > 0 && (c.current != nil || c.previous != nil) {
		return left, true
	}
	for _, open := range []*session{c.current, c.previous} {
		if open != nil {
			open.end(unavailable("the session is no longer needed"))
		}
	}
	c.current, c.previous = nil, nil
	c.due, c.tries, c.idleSince = 0, 0, 0
	return 0, false
}

// checkLeases forgets leases that are lost. It returns the time until the next check, and whether the session fails to
// renew one.
func (c *Client) checkLeases(now clock.Moment) (pause time.Duration, stuck bool) {
	c.shortest, c.pace = 0, 0
	next := time.Duration(math.MaxInt64)
	for held := range c.leases {
		state := held.state(now)
		if state.end != nil {
			c.forget(held)
			c.detachElsewhere(held, nil)
			continue
		}
		next = min(next, state.left)
		c.shortest = shorter(c.shortest, state.ttl)
		if !held.attachments.single {
			c.pace = shorter(c.pace, state.ttl)
		}
		if state.isOverdue() {
			held.renewalsFail(now, false, c.whyNotRenewed())
			// A new attachment gets its time. If the store is the cause, a new session with the only server is no help.
			patient := now.Sub(held.attachments.at) <= answerTimeout(state.ttl)
			hopeless := state.storeAway && c.servers.count() == 1
			stuck = stuck || !held.attachments.single && !patient && !hopeless
		}
	}
	if c.shortest == 0 {
		return time.Second, stuck
	}
	return min(tickFor(c.shortest), next), stuck
}

// whyNotRenewed is the known reason why renewals do not arrive.
func (c *Client) whyNotRenewed() string {
	if c.lastFailure != nil {
		return c.lastFailure.Error()
	}
	return "no renewal has arrived in time"
}

// shorter returns the shorter of two TTLs, of which the first is 0 if there is none.
func shorter(shortest, ttl time.Duration) time.Duration {
	if shortest == 0 {
		return ttl
	}
	return min(shortest, ttl)
}
