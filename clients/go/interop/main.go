// The driver of the interop tests: it reads one JSON object a line from stdin, and writes one a line to stdout.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"google.golang.org/grpc/codes"

	fencepost "github.com/fencepost/fencepost-go"
)

// lineMax is the maximum length of a request.
const lineMax = 1 << 20

// A request is one line of input; each operation uses some of the fields.
type request struct {
	ID       int64             `json:"id"`
	Op       string            `json:"op"`
	Servers  []string          `json:"servers"`
	Holder   string            `json:"holder"`
	CA       string            `json:"ca"`
	Cert     string            `json:"cert"`
	Key      string            `json:"key"`
	Token    json.RawMessage   `json:"token"`
	Lock     string            `json:"lock"`
	Name     string            `json:"name"`
	Names    []string          `json:"names"`
	TTL      *int64            `json:"ttl_ms"`
	MaxHold  *int64            `json:"max_hold_ms"`
	MinHold  *int64            `json:"min_hold_ms"`
	Delay    *int64            `json:"lock_delay_ms"`
	Shared   sharing           `json:"shared"`
	Limit    *uint32           `json:"semaphore"`
	Permits  uint32            `json:"permits"`
	Version  uint64            `json:"permit_limit_version"`
	Owner    string            `json:"owner"`
	Waiters  uint32            `json:"max_waiters"`
	Wanted   bool              `json:"tell_when_wanted"`
	Mode     string            `json:"mode"`
	Wait     *int64            `json:"wait_ms"`
	Metadata map[string]string `json:"metadata"`
	Of       int64             `json:"of"`
	File     string            `json:"file"`
	Prefix   string            `json:"prefix"`
}

// sharing is a bool for one lock, and for a set the names of the locks that are shared.
type sharing struct {
	lock  bool
	names []string
}

func (s *sharing) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &s.lock) == nil {
		return nil
	}
	return json.Unmarshal(text, &s.names)
}

// answer is one line of output.
type answer map[string]any

type driver struct {
	out sync.Mutex

	mu     sync.Mutex
	client *fencepost.Client
	locks  map[string]*fencepost.Lock
	sets   map[string]*fencepost.LockSet
	// acquires are the cancel functions of the acquires in progress.
	acquires map[int64]context.CancelFunc
}

func main() {
	d := &driver{
		locks: map[string]*fencepost.Lock{}, sets: map[string]*fencepost.LockSet{},
		acquires: map[int64]context.CancelFunc{},
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, lineMax)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			d.refuse(r.ID, err)
			continue
		}
		switch r.Op {
		case "exit":
			return
		case "open":
			d.answer(r.ID, answer{}, d.open(r))
		case "acquire", "acquire_all":
			// Registered before the next line is read, which may cancel it.
			ctx, cancel := context.WithCancel(context.Background())
			d.mu.Lock()
			d.acquires[r.ID] = cancel
			d.mu.Unlock()
			if r.Op == "acquire" {
				go d.acquire(ctx, r)
			} else {
				go d.acquireAll(ctx, r)
			}
		default:
			go d.run(r)
		}
	}
}

func (d *driver) run(r request) {
	operations := map[string]func(request) (answer, error){
		"cancel": d.cancel, "valid": d.valid, "write": d.write, "increment": d.increment, "release": d.release,
		"convert": d.convert, "describe": d.describe, "observe": d.observe, "waiters": d.waiters,
		"get": d.get, "list": d.list, "watch": d.watch, "check_token": d.checkToken, "close": d.close,
	}
	operation, ok := operations[r.Op]
	if !ok {
		d.refuse(r.ID, fmt.Errorf("unknown operation %q", r.Op))
		return
	}
	result, err := operation(r)
	d.answer(r.ID, result, err)
}

func (d *driver) print(line answer) {
	text, err := json.Marshal(line)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	d.out.Lock()
	defer d.out.Unlock()
	fmt.Printf("%s\n", text)
}

var errBadRequest = errors.New("bad request")

func (d *driver) refuse(id int64, err error) {
	d.answer(id, nil, fmt.Errorf("%w: %w", errBadRequest, err))
}

func (d *driver) answer(id int64, result answer, err error) {
	if err != nil {
		result = describe(err)
	}
	result["id"], result["ok"] = id, err == nil
	d.print(result)
}

// describe turns an error into the fields of an answer.
func describe(err error) answer {
	fields := answer{"error": "refused", "message": err.Error(), "code": "UNKNOWN", "reason": ""}
	var notAll *fencepost.NotAllAcquiredError
	if errors.As(err, &notAll) {
		fields["name"], fields["given_back"] = notAll.Name, notAll.GivenBack
	}
	var (
		contended *fencepost.ContendedError
		timedOut  *fencepost.TimedOutError
		lost      *fencepost.LostError
		refused   *fencepost.RefusedError
		away      *fencepost.UnavailableError
	)
	switch {
	case errors.Is(err, errBadRequest):
		fields["error"] = "bad_request"
	case errors.Is(err, fencepost.ErrClosed):
		fields["error"] = "closed"
	case errors.Is(err, fencepost.ErrReleased):
		fields["error"], fields["reason"], fields["successor_token"] = "lost", fencepost.LossReleased, 0
	case errors.Is(err, context.Canceled):
		fields["error"] = "cancelled"
	case errors.As(err, &contended):
		fields["error"], fields["holder"], fields["waiters"] = "contended", label(contended.Holders), contended.Waiters
		fields["holders"] = contended.HolderCount
	case errors.As(err, &timedOut):
		fields["error"], fields["holder"], fields["waiters"] = "timed_out", label(timedOut.Holders), timedOut.Waiters
		fields["holders"] = timedOut.HolderCount
	case errors.As(err, &lost):
		fields["error"], fields["reason"], fields["successor_token"] = "lost", lost.Reason, lost.SuccessorToken
	case errors.Is(err, fencepost.ErrOutcomeUnknown):
		fields["error"] = "outcome_unknown"
	case errors.As(err, &refused):
		fields["code"], fields["reason"] = codeName(refused.Code), refused.Reason
	case errors.As(err, &away):
		fields["code"], fields["reason"] = codeName(codes.Unavailable), away.Reason
	}
	return fields
}

func label(holders []fencepost.LockHolder) any {
	if len(holders) == 0 {
		return nil
	}
	return holders[0].Holder
}
