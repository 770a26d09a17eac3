// Package readers has what the guards share about the holders of shared locks.
package readers

import (
	"errors"
	"fmt"

	"github.com/fencepost/fencepost-go/guard"
)

// Refused returns why a store whose highest token is newest refuses a reader: its token is stale, or was never raised.
func Refused(grant guard.Grant, newest uint64) error {
	if newest < grant.Token() {
		return fmt.Errorf("%w: token %d of %s", guard.ErrNotRaised, grant.Token(), grant.Name())
	}
	return &guard.StaleTokenError{Name: grant.Name(), Token: grant.Token(), Newest: newest}
}

// Check returns why a grant cannot be that of a reader, if it is of a semaphore.
func Check(grant guard.Grant) error {
	fence, err := guard.FenceKey(grant, grant.Name())
	if err == nil && fence != grant.Name() {
		err = fmt.Errorf("%w: lock %q", guard.ErrNotShared, grant.Name())
	}
	return err
}

// Wrapped says which lock and which step an error of a store belongs to.
func Wrapped(err error, grant guard.Grant, step string) error {
	if err == nil || errors.Is(err, guard.ErrStaleToken) || errors.Is(err, guard.ErrNotRaised) {
		return err
	}
	return fmt.Errorf("fencepost: lock %q: cannot %s: %w", grant.Name(), step, err)
}
