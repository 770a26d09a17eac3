package fenceposttest

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// waitUntilStopped waits until all threads of a child have stopped: SIGSTOP reaches each of them a little later than it
// is sent. WNOWAIT leaves the end of the child to whoever waits for that.
func waitUntilStopped(process int) error {
	for {
		err := unix.Waitid(unix.P_PID, process, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EINTR):
			return fmt.Errorf("cannot wait for the pause of process %d: %w", process, err)
		}
	}
}
