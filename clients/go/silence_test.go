//go:build unix

package fencepost_test

import (
	"testing"
	"time"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// The open connection falls silent, and there is no other server: what is opened next must be another connection.

// retryTime is how long a call is repeated. What is served in less than that did not wait for its end.
const retryTime = 10 * time.Second

func TestALockSurvivesTheSilenceOfItsConnection(t *testing.T) {
	t.Parallel()
	through := startProxy(t, fenceposttest.Start(t).Address)
	client := newClient(t, through.address)
	const ttl = 5 * time.Second
	lock := acquire(t, client, "orders/42", fencepost.WithTTL(ttl))
	through.silenceOpen()
	outlive(t, ttl, lock)
	must(t, lock.Release(testContext(t)))
}

func TestAnAcquireOnASilentConnectionIsServedByTheNextOne(t *testing.T) {
	t.Parallel()
	through := startProxy(t, fenceposttest.Start(t).Address)
	client := newClient(t, through.address)
	must(t, acquire(t, client, "orders/42").Release(testContext(t)))
	through.silenceOpen()
	begun := time.Now()
	must(t, acquire(t, client, "orders/42").Release(testContext(t)))
	if took := time.Since(begun); took > retryTime/2 {
		t.Fatalf("it took %v", took)
	}
}

func TestACallTakesItsSilentConnectionWithIt(t *testing.T) {
	t.Parallel()
	through := startProxy(t, fenceposttest.Start(t).Address)
	client := newClient(t, through.address)
	get := func() time.Duration {
		begun := time.Now()
		_, err := client.Get(testContext(t), "orders/42")
		must(t, err)
		return time.Since(begun)
	}
	get()
	through.silenceOpen()
	if took := get(); took > retryTime*3/4 {
		t.Fatalf("it took %v", took)
	}
	if took := get(); took > retryTime/4 {
		t.Fatalf("the next one took %v", took)
	}
}
