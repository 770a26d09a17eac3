//go:build unix

package fenceposttest

import (
	"os"
	"syscall"
)

const (
	stopSignal   = syscall.SIGTERM
	resumeSignal = syscall.SIGCONT
)

var pauseSignal os.Signal = syscall.SIGSTOP
