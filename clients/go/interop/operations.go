package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	fencepost "github.com/fencepost/fencepost-go"
)

func codeName(code codes.Code) string {
	var name strings.Builder
	for i, char := range code.String() {
		if i > 0 && 'A' <= char && char <= 'Z' && code != codes.OK {
			name.WriteByte('_')
		}
		name.WriteRune(char)
	}
	return strings.ToUpper(name.String())
}

func (d *driver) open(r request) error {
	config := fencepost.Config{Servers: r.Servers, Holder: r.Holder, CAFile: r.CA, CertFile: r.Cert, KeyFile: r.Key}
	var token string
	if r.Token != nil {
		if err := json.Unmarshal(r.Token, &token); err != nil {
			return fmt.Errorf("%w: %w", errBadRequest, err)
		}
		config.Token = func(context.Context) (string, error) { return token, nil }
	}
	client, err := fencepost.New(config)
	if err != nil {
		return fmt.Errorf("%w: %w", errBadRequest, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.client = client
	return nil
}

func (d *driver) connected() (*fencepost.Client, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client == nil {
		return nil, fmt.Errorf("%w: not open", errBadRequest)
	}
	return d.client, nil
}

func (d *driver) acquire(ctx context.Context, r request) {
	lock, err := d.acquired(ctx, r)
	d.mu.Lock()
	d.acquires[r.ID]()
	delete(d.acquires, r.ID)
	if err == nil {
		d.locks[r.Lock] = lock
	}
	d.mu.Unlock()
	if err != nil {
		d.answer(r.ID, nil, err)
		return
	}
	slot, _ := lock.Slot()
	d.answer(r.ID, answer{
		"token": lock.Token(), "grant_id": lock.GrantID(), "previous_end": lock.PreviousEnd(),
		"permits": lock.Permits(), "slot": slot, "mode": lock.Mode(),
	}, nil)
	if r.Wanted {
		go d.tellWanted(r, lock)
	}
	context.AfterFunc(lock.Context(), func() {
		var lost *fencepost.LostError
		if errors.As(lock.Err(), &lost) {
			d.print(answer{
				"event": "lost", "lock": r.Lock, "reason": lost.Reason, "successor_token": lost.SuccessorToken,
			})
		}
	})
}

func (d *driver) acquired(ctx context.Context, r request) (*fencepost.Lock, error) {
	client, err := d.connected()
	if err != nil {
		return nil, err
	}
	return client.Acquire(ctx, r.Name, d.options(r)...)
}

func (d *driver) options(r request) []fencepost.AcquireOption {
	options := []fencepost.AcquireOption{
		fencepost.WithMetadata(r.Metadata), fencepost.WithOwner(r.Owner), fencepost.WithMaxWaiters(r.Waiters),
		fencepost.WithOnAtRisk(func() { d.print(answer{"event": "at_risk", "lock": r.Lock}) }),
	}
	if r.TTL != nil {
		options = append(options, fencepost.WithTTL(time.Duration(*r.TTL)*time.Millisecond))
	}
	if r.MaxHold != nil {
		options = append(options, fencepost.WithMaxHold(time.Duration(*r.MaxHold)*time.Millisecond))
	}
	if r.MinHold != nil {
		options = append(options, fencepost.WithMinHold(time.Duration(*r.MinHold)*time.Millisecond))
	}
	if r.Delay != nil {
		options = append(options, fencepost.WithLockDelay(time.Duration(*r.Delay)*time.Millisecond))
	}
	if r.Shared.lock {
		options = append(options, fencepost.WithShared())
	}
	if r.Shared.names != nil {
		options = append(options, fencepost.WithSharedNames(r.Shared.names...))
	}
	if r.Wanted {
		options = append(options, fencepost.WithTellWhenWanted())
	}
	if r.Limit != nil {
		options = append(options, fencepost.WithSemaphore(*r.Limit), fencepost.WithPermits(r.Permits),
			fencepost.WithPermitLimitVersion(r.Version))
	}
	if r.Wait != nil {
		options = append(options, fencepost.WithWait(time.Duration(*r.Wait)*time.Millisecond))
	}
	return options
}

func (d *driver) acquireAll(ctx context.Context, r request) {
	client, err := d.connected()
	var set *fencepost.LockSet
	if err == nil {
		set, err = client.AcquireAll(ctx, r.Names, d.options(r)...)
		err = ofSet(err)
	}
	d.mu.Lock()
	d.acquires[r.ID]()
	delete(d.acquires, r.ID)
	if err == nil {
		d.sets[r.Lock] = set
	}
	d.mu.Unlock()
	if err != nil {
		d.answer(r.ID, nil, err)
		return
	}
	tokens := answer{}
	for name, lock := range set.All() {
		tokens[name] = lock.Token()
	}
	d.answer(r.ID, answer{"tokens": tokens}, nil)
}

// ofSet tells an error of the call, for which no server was asked, from that of one of the locks.
func ofSet(err error) error {
	var ofLock *fencepost.NotAllAcquiredError
	if errors.Is(err, fencepost.ErrRefused) && !errors.As(err, &ofLock) {
		return fmt.Errorf("%w: %w", errBadRequest, err)
	}
	return err
}

// held is a lock or a set.
type held interface {
	Valid() bool
	Remaining() time.Duration
	Err() error
	Release(ctx context.Context) error
}

func (d *driver) held(r request) (held, error) {
	d.mu.Lock()
	set := d.sets[r.Lock]
	d.mu.Unlock()
	if set != nil {
		return set, nil
	}
	return d.lock(r)
}

func (d *driver) cancel(r request) (answer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if cancel := d.acquires[r.Of]; cancel != nil {
		cancel()
	}
	return answer{}, nil
}

func (d *driver) lock(r request) (*fencepost.Lock, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	lock := d.locks[r.Lock]
	if lock == nil {
		return nil, fmt.Errorf("%w: no lock %q", errBadRequest, r.Lock)
	}
	return lock, nil
}

func (d *driver) valid(r request) (answer, error) {
	lock, err := d.held(r)
	if err != nil {
		return nil, err
	}
	return answer{"valid": lock.Valid(), "remaining_ms": lock.Remaining().Milliseconds()}, nil
}

func (d *driver) write(r request) (answer, error) {
	lock, err := d.lock(r)
	if err != nil {
		return nil, err
	}
	if err := lock.Err(); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(r.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(file, "%d\n", lock.Token())
	return answer{}, errors.Join(err, file.Close())
}

func (d *driver) increment(r request) (answer, error) {
	lock, err := d.held(r)
	if err != nil {
		return nil, err
	}
	if err := lock.Err(); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(r.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	value := 0
	if len(text) > 0 {
		if value, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
			return nil, err
		}
	}
	value++
	return answer{"value": value}, os.WriteFile(r.File, []byte(strconv.Itoa(value)), 0o600)
}

func (d *driver) release(r request) (answer, error) {
	lock, err := d.held(r)
	if err != nil {
		return nil, err
	}
	err = lock.Release(context.Background())
	var lost *fencepost.LostError
	switch {
	case !errors.As(err, &lost):
		return answer{"end": fencepost.EndReleased}, err
	case lost.Reason == fencepost.LossSilence || lost.Reason == fencepost.LossMaxHold:
		return answer{"end": fencepost.EndUnspecified}, nil // no server has reported an end
	}
	return answer{"end": lost.Reason}, nil
}

func (d *driver) get(r request) (answer, error) {
	client, err := d.connected()
	if err != nil {
		return nil, err
	}
	info, err := client.Get(context.Background(), r.Name)
	if err != nil {
		return nil, err
	}
	var token uint64
	if len(info.Holders) > 0 {
		token = info.Holders[0].Token
	}
	return answer{"holder": label(info.Holders), "token": token, "waiters": info.Waiters}, nil
}

func (d *driver) list(r request) (answer, error) {
	client, err := d.connected()
	if err != nil {
		return nil, err
	}
	names := []string{}
	for lock, err := range client.List(context.Background(), r.Prefix) {
		if err != nil {
			return nil, err
		}
		names = append(names, lock.Name)
	}
	return answer{"names": names}, nil
}

func (d *driver) watch(r request) (answer, error) {
	client, err := d.connected()
	if err != nil {
		return nil, err
	}
	watcher, err := client.Watch(context.Background(), r.Prefix)
	if err != nil {
		return nil, err
	}
	go func() {
		defer watcher.Close()
		for event, err := range watcher.All() {
			if err != nil {
				return
			}
			d.print(answer{
				"event": "watch", "kind": event.Kind, "name": event.Name, "token": event.Token, "holder": event.Holder,
			})
		}
	}()
	return answer{}, nil
}

func (d *driver) checkToken(r request) (answer, error) {
	client, err := d.connected()
	if err != nil {
		return nil, err
	}
	var token uint64
	if err := json.Unmarshal(r.Token, &token); err != nil {
		return nil, fmt.Errorf("%w: %w", errBadRequest, err)
	}
	check, err := client.CheckToken(context.Background(), r.Name, token)
	if err != nil {
		return nil, err
	}
	return answer{"status": check.Status}, nil
}

func (d *driver) close(request) (answer, error) {
	client, err := d.connected()
	if err != nil {
		return nil, err
	}
	return answer{}, client.Close(context.Background())
}
