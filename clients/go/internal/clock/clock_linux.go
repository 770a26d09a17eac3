package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now reads CLOCK_BOOTTIME. For a lease, read it before the request is sent.
func Now() Moment {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		// Every kernel since 2.6.39 has this clock. Without a clock no lease can be kept safely.
		panic("fencepost: CLOCK_BOOTTIME cannot be read: " + err.Error())
	}
	return Moment(time.Duration(now.Nano()))
}
