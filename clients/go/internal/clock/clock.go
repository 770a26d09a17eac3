// Package clock is the one clock of the client: monotonic, and it counts the time that the machine is suspended.
//
// A lease keeps ageing on the server while the machine of its holder is suspended. Go's monotonic time and its timers
// stop meanwhile. So timers only wake goroutines up, and validity is always decided by a Moment.
package clock

import "time"

// Moment is a point in time on this machine's clock. It means nothing on another machine or after a reboot.
type Moment int64

// Add returns the moment that is d later.
func (m Moment) Add(d time.Duration) Moment { return m + Moment(d) }

// Sub returns the time since an earlier moment; negative if that is later.
func (m Moment) Sub(earlier Moment) time.Duration { return time.Duration(m - earlier) }
