//go:build unix

package fencepost_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

// benchClient is a client with a connection to a server of its own.
func benchClient(b *testing.B) *fencepost.Client {
	b.Helper()
	client, err := fencepost.New(fencepost.Config{Servers: []string{fenceposttest.Start(b).Address}, Holder: b.Name()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close(context.Background()) })
	if err := client.Do(b.Context(), "warm", func(context.Context, uint64) error { return nil }); err != nil {
		b.Fatal(err)
	}
	return client
}

// held is the memory of held locks. It is measured once, in a process that has done nothing else yet.
var held struct {
	measured       sync.Once
	heap, resident float64
}

// BenchmarkMemory measures what a process needs for each of 10,000 locks that it holds: live objects and stacks, and
// resident memory (on Linux). It has to run before other benchmarks.
func BenchmarkMemory(b *testing.B) {
	const count = 10_000
	held.measured.Do(func() {
		client := benchClient(b)
		heap, resident := memory()
		locks := make([]*fencepost.Lock, count)
		var all sync.WaitGroup
		for i := range locks {
			all.Go(func() {
				var err error
				locks[i], err = client.Acquire(b.Context(), fmt.Sprint("orders/", i), fencepost.WithTTL(time.Minute))
				if err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
		heapNow, residentNow := memory()
		held.heap, held.resident = float64(heapNow-heap)/count, float64(residentNow-resident)/count
		runtime.KeepAlive(locks)
	})
	b.ReportMetric(held.heap, "heap-B/lock")
	b.ReportMetric(held.resident, "resident-B/lock")
	b.ReportMetric(0, "ns/op")
}

// memory is what the process uses, after the garbage collection.
func memory() (heap, resident int64) {
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		var pages int64
		if _, err := fmt.Sscan(string(statm), new(int64), &pages); err == nil {
			resident = pages * int64(os.Getpagesize())
		}
	}
	return int64(stats.HeapAlloc + stats.StackInuse), resident
}

// BenchmarkPairs acquires and releases, each goroutine a lock of its own.
func BenchmarkPairs(b *testing.B) {
	const goroutines = 64
	client := benchClient(b)
	var all sync.WaitGroup
	left := make(chan struct{}, goroutines)
	b.ResetTimer()
	for i := range goroutines {
		all.Go(func() {
			name := fmt.Sprint("orders/", i)
			for range left {
				lock, err := client.TryAcquire(context.Background(), name)
				if err == nil {
					err = lock.Release(context.Background())
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	for range b.N {
		left <- struct{}{}
	}
	close(left)
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}
