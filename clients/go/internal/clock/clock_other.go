//go:build !linux && !darwin && !windows

package clock

import "time"

var start = time.Now()

// Now reads Go's monotonic clock. Whether it counts the time that the machine is suspended depends on the system. For
// a lease, read it before the request is sent.
func Now() Moment { return Moment(time.Since(start)) }
