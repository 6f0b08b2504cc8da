// Command kfake measures clusters of franz-go's kfake: the times from the call to the first acknowledged record, and the
// memory of each. The argument is the number of clusters; standard output is an object with "times_ms" and "bytes".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Clusters that are held to measure the memory of one: Go's heap grows in steps of megabytes.
const held = 500

func main() {
	runs := must(strconv.Atoi(os.Args[1]))
	measure() // pages in the program
	before := residentBytes()
	var clusters []*kfake.Cluster
	for range held {
		clusters = append(clusters, must(kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(1, "orders"))))
	}
	bytes := (residentBytes() - before) / held
	for _, cluster := range clusters {
		cluster.Close()
	}
	var times []float64
	for range runs {
		times = append(times, measure())
	}
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{"times_ms": times, "bytes": bytes}))
}

// measure returns the milliseconds from the call to the first acknowledged record.
func measure() float64 {
	began := time.Now()
	cluster := must(kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(1, "orders")))
	defer cluster.Close()
	client := must(kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...)))
	defer client.Close()
	check(client.ProduceSync(context.Background(), &kgo.Record{Topic: "orders", Value: []byte("one")}).FirstErr())
	return float64(time.Since(began).Microseconds()) / 1000
}

func residentBytes() float64 {
	file := must(os.Open("/proc/self/status"))
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if found, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
			return must(strconv.ParseFloat(strings.Fields(found)[0], 64)) * 1024
		}
	}
	panic("the kernel does not say VmRSS")
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
