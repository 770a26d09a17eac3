//go:build unix

package fenceposttest

import "syscall"

const (
	stopSignal   = syscall.SIGTERM
	resumeSignal = syscall.SIGCONT
)
