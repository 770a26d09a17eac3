//go:build unix

package fencepost_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	fencepost "github.com/fencepost/fencepost-go"
	"github.com/fencepost/fencepost-go/fenceposttest"
)

func benchClient(b *testing.B) *fencepost.Client {
	b.Helper()
	client, err := fencepost.New(fencepost.Config{Servers: []string{fenceposttest.Start(b).Address}, Holder: b.Name()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
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

// BenchmarkMemory measures the heap and the stacks of a process that holds 10,000 locks.
func BenchmarkMemory(b *testing.B) {
	const count = 10_000
	for range b.N {
		client := benchClient(b)
		before := memory()
		locks := make([]*fencepost.Lock, count)
		var all sync.WaitGroup
		for i := range locks {
			all.Go(func() {
				var err error
				if locks[i], err = client.Acquire(context.Background(), fmt.Sprint("orders/", i)); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
		b.ReportMetric(float64(memory()-before)/count, "B/lock")
		runtime.KeepAlive(locks)
	}
}

// memory is what the process uses.
func memory() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapInuse + stats.StackInuse)
}
