package fencepost

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/fencepost/fencepost-go/internal/facts"
)

// eventsMax is the number of events that wait for the logger. More are dropped: a logger that blocks costs no memory.
const eventsMax = 1000

// An eventLog passes events to the logger, in order and on a goroutine of its own: a logger that blocks, panics or calls
// the client costs no lock. Events never have a lease id, a request id or a credential.
type eventLog struct {
	// logger is nil for slog.Default() at the time of the event.
	logger *slog.Logger

	mu    sync.Mutex
	queue []event
	// idle is closed when the goroutine has passed on all events; nil if none runs.
	idle chan struct{}
}

type event struct {
	at         time.Time
	level      slog.Level
	message    string
	attributes []slog.Attr
}

func (l *eventLog) add(level slog.Level, message string, attributes ...slog.Attr) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == eventsMax {
		return
	}
	l.queue = append(l.queue, event{at: time.Now(), level: level, message: message, attributes: attributes})
	if l.idle == nil {
		l.idle = make(chan struct{})
		go l.run(l.idle)
	}
}

func (l *eventLog) run(idle chan struct{}) {
	defer close(idle)
	for next, more := l.take(); more; next, more = l.take() {
		l.pass(next)
	}
}

// take takes out the next event. Without one it ends the goroutine.
func (l *eventLog) take() (event, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		l.queue, l.idle = nil, nil
		return event{}, false
	}
	next := l.queue[0]
	l.queue = l.queue[1:]
	return next, true
}

func (l *eventLog) pass(next event) {
	// A logger that panics has logged what it could.
	defer func() { _ = recover() }()
	logger := l.logger
	if logger == nil {
		logger = slog.Default()
	}
	if !logger.Enabled(context.Background(), next.level) {
		return
	}
	record := slog.NewRecord(next.at, next.level, next.message, 0)
	record.AddAttrs(next.attributes...)
	_ = logger.Handler().Handle(context.Background(), record) // nobody is there to be told
}

// flush waits until all events are passed on, or until ctx is done.
func (l *eventLog) flush(ctx context.Context) {
	l.mu.Lock()
	idle := l.idle
	l.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// ofLock are the fields of an event that concerns a lock.
func ofLock(held *lease, more ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{slog.String("lock", held.name), slog.Uint64("token", held.token.Load())}, more...)
}

func (l *eventLog) atRisk(held *lease, left time.Duration, cause string) {
	l.add(slog.LevelWarn, fmt.Sprintf("renewals of %s fail, it is valid for another %v: %s", held.name,
		left.Round(time.Millisecond), cause), ofLock(held, slog.String("cause", cause))...)
}

func (l *eventLog) bounded(held *lease, left time.Duration) {
	l.add(slog.LevelWarn, fmt.Sprintf("%s reaches its max_hold: no renewal extends it, and it is valid for another %v",
		held.name, left.Round(time.Millisecond)), ofLock(held)...)
}

func (l *eventLog) recovered(held *lease) {
	l.add(slog.LevelInfo, held.name+" is renewed again", ofLock(held)...)
}

func (l *eventLog) lost(held *lease, loss *LostError) {
	l.add(slog.LevelWarn, bare(loss), ofLock(held, slog.String("cause", string(loss.Reason)))...)
}

func (l *eventLog) forgotten(held *lease) {
	l.add(slog.LevelWarn, fmt.Sprintf("%s (token %d) was forgotten without a release, and is released", held.name,
		held.token.Load()), ofLock(held)...)
}

// gaveUp is the end of a release, or of the cleanup behind an acquire, without an answer.
func (l *eventLog) gaveUp(name string, cause error) {
	l.add(slog.LevelWarn, fmt.Sprintf("%s could not be released in the background: %s; it is free after its TTL", name,
		bare(cause)), slog.String("lock", name), slog.String("cause", bare(cause)))
}

// campaignFails is the first error of a campaign in an outage.
func (l *eventLog) campaignFails(name string, cause error) {
	l.add(slog.LevelWarn, fmt.Sprintf("the campaign for %s fails, and goes on: %s", name, bare(cause)),
		slog.String("lock", name), slog.String("cause", bare(cause)))
}

// dropped is an error of a leader that had lost its lock before.
func (l *eventLog) dropped(held *lease, cause error) {
	l.add(slog.LevelWarn, fmt.Sprintf("the leader of %s failed after the loss of the lock: %s", held.name, bare(cause)),
		ofLock(held, slog.String("cause", bare(cause)))...)
}

func (l *eventLog) moved(from, to, cause string) {
	l.add(slog.LevelInfo, fmt.Sprintf("server %s failed (%s), trying %s", from, cause, to),
		slog.String("server", from), slog.String("cause", cause))
}

// otherStore is about a server that does not have the store of one that was used before.
func (l *eventLog) otherStore(server, other string) {
	why := strings.Replace(facts.OtherStore, "{}", other, 1)
	l.add(slog.LevelWarn, server+" "+why, slog.String("server", server), slog.String("other", other))
}
