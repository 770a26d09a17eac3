package clock

import "golang.org/x/sys/windows"

// Now reads the time since the start of the system, which includes the time asleep, in steps of 10 to 16 ms. For a
// lease, read it before the request is sent.
func Now() Moment { return Moment(windows.DurationSinceBoot()) }
