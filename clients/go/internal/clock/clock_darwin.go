package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now reads CLOCK_MONOTONIC, which on this system counts the time asleep. For a lease, read it before the request is
// sent.
func Now() Moment {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic("fencepost: CLOCK_MONOTONIC cannot be read: " + err.Error())
	}
	return Moment(time.Duration(now.Nano()))
}
