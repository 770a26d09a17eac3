package main

import (
	"context"
	"fmt"
	"maps"
	"os"

	fencepost "github.com/fencepost/fencepost-go"
)

// tellWanted tells once that somebody waits for the lock. The client does not tell the mode: it is that of who is next.
func (d *driver) tellWanted(r request, lock *fencepost.Lock) {
	select {
	case <-lock.Wanted():
	case <-lock.Context().Done():
		return
	}
	next, err := d.waiting(r)
	if err != nil || len(next) == 0 {
		fmt.Fprintln(os.Stderr, "wanted, and nobody waits:", r.Lock, err)
		return
	}
	d.print(answer{"event": "wanted", "lock": r.Lock, "mode": next[0].Mode})
}

func (d *driver) convert(r request) (answer, error) {
	lock, err := d.lock(r)
	if err != nil {
		return nil, err
	}
	converted := true
	if r.Mode == string(fencepost.ModeShared) {
		err = lock.Downgrade(context.Background())
	} else {
		converted, err = lock.TryUpgrade(context.Background())
	}
	return answer{"converted": converted, "token": lock.Token(), "mode": lock.Mode()}, err
}

func (d *driver) describe(r request) (answer, error) {
	lock, err := d.lock(r)
	if err != nil {
		return nil, err
	}
	number, err := lock.Describe(context.Background(), r.Metadata, r.Holder)
	return answer{"number": number}, err
}

func (d *driver) observe(r request) (answer, error) {
	client, err := d.connected()
	if err != nil {
		return nil, err
	}
	go func() {
		for state, err := range client.Observe(context.Background(), r.Name) {
			if err != nil {
				return
			}
			d.print(observed(state))
		}
	}()
	return answer{}, nil
}

func observed(lock fencepost.LockInfo) answer {
	event := answer{
		"event": "observed", "name": lock.Name, "holder": label(lock.Holders), "holders": lock.HolderCount,
		"token": 0, "metadata": nil, "description": 0,
	}
	if len(lock.Holders) > 0 {
		first, metadata := lock.Holders[0], map[string]string{}
		maps.Copy(metadata, first.Metadata) // not null if there is none
		event["token"], event["metadata"], event["description"] = first.Token, metadata, first.Description
	}
	return event
}

func (d *driver) waiters(r request) (answer, error) {
	waiting, err := d.waiting(r)
	shown := []answer{}
	for _, waiter := range waiting {
		shown = append(shown, answer{"holder": waiter.Holder, "owner": waiter.Owner, "mode": waiter.Mode})
	}
	return answer{"waiters": shown}, err
}

// waiting are those who wait for the lock of a request.
func (d *driver) waiting(r request) ([]fencepost.LockWaiter, error) {
	client, err := d.connected()
	if err != nil {
		return nil, err
	}
	var found []fencepost.LockWaiter
	for waiter, err := range client.Waiters(context.Background(), r.Name) {
		if err != nil {
			return nil, err
		}
		found = append(found, waiter)
	}
	return found, nil
}
