// Package fakes lets fenceposttest make locks without a server. Only the package of the client can make a Lock, and it
// exports nothing for tests.
package fakes

// A Lock is a lock without a server.
type Lock struct {
	// Lock is a *fencepost.Lock. This package cannot name the type, because the package of the client imports it.
	Lock any
	// Lose revokes the lock.
	Lose func()
	// Released is closed by the first call of Release.
	Released <-chan struct{}
}

// New makes a lock. The package of the client sets it.
var New func(name string, token uint64) Lock
