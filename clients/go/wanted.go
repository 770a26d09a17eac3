package fencepost

// WithTellWhenWanted has the server tell when somebody waits for the lock: see [Lock.Wanted]. It is for holders that
// keep a lock while nobody else wants it, and for jobs that may be interrupted. All servers have to know it, as with
// [WithMaxHold].
func WithTellWhenWanted() AcquireOption { return func(o *acquireOptions) { o.tellWhenWanted = true } }

// Wanted is closed when somebody waits whom the lock excludes, if it was acquired with [WithTellWhenWanted]; otherwise
// never. It stays closed, though who waited may have given up. It is a hint, which can get lost when another server
// takes over: do not wait for it without a bound.
func (l *Lock) Wanted() <-chan struct{} { return l.lease.wanted }

// IsWanted reports whether [Lock.Wanted] is closed.
func (l *Lock) IsWanted() bool {
	select {
	case <-l.lease.wanted:
		return true
	default:
		return false
	}
}

// toldWanted records that somebody waits. Servers tell it for each attachment anew.
func (l *lease) toldWanted() { l.wantedOnce.Do(func() { close(l.wanted) }) }
