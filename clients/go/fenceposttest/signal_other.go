//go:build !unix

package fenceposttest

import "os"

// This system knows only one signal for other processes.
var (
	stopSignal, resumeSignal = os.Kill, os.Kill
	pauseSignal              os.Signal
)
