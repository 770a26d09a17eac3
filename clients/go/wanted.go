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

// WantedMode is the mode that is waited for, once [Lock.Wanted] is closed, and empty until then. A holder for whom a
// shared lock is enough can let in a reader with [Lock.Downgrade].
func (l *Lock) WantedMode() LockMode {
	if !l.IsWanted() {
		return ""
	}
	return l.lease.wantedMode
}

// toldWanted records that somebody waits. Servers tell it for each attachment anew; the first time counts.
func (l *lease) toldWanted(mode LockMode) {
	l.wantedOnce.Do(func() {
		l.wantedMode = mode
		close(l.wanted)
	})
}
