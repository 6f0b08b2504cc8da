package krafttest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var server *Server

func TestMain(m *testing.M) {
	var err error
	if server, err = Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := server.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// newShop returns a client of a cluster with the client id "shop".
func newShop(tb testing.TB, cluster *Cluster) *kgo.Client {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(cluster.Servers()...),
		kgo.ClientID("shop"),
		kgo.MetadataMinAge(50*time.Millisecond), // it looks for a new leader at once, rather than after 5 s
	)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	return client
}

func write(tb testing.TB, client *kgo.Client, topic, value string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	record := &kgo.Record{Topic: topic, Value: []byte(value)}
	if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
		tb.Fatal(err)
	}
}

func values(cluster *Cluster, topic string) []string {
	var found []string
	for _, record := range cluster.Records(topic) {
		found = append(found, string(record.Value))
	}
	return found
}

func expect(tb testing.TB, found, wanted []string) {
	tb.Helper()
	if !slices.Equal(found, wanted) {
		tb.Fatalf("%q, not %q", found, wanted)
	}
}

func TestRefusedOrderIsWrittenOnce(t *testing.T) {
	cluster := server.Cluster(t, Words{"nodes": 1})
	topic := cluster.Topic("orders", nil)
	shop := newShop(t, cluster)
	fault := cluster.Fault(Words{"api": "Produce", "topic": topic, "error": "NOT_LEADER_OR_FOLLOWER", "times": 1})
	write(t, shop, topic, "one order")
	fault.End()
	if fault.Fired != 1 {
		t.Fatalf("the fault has fired %d times", fault.Fired)
	}
	var errorsOfShop []string
	for _, request := range cluster.Requests(Words{"api": "Produce", "client_id": "shop"}) {
		for _, each := range request.Errors {
			errorsOfShop = append(errorsOfShop, each.Error)
		}
	}
	expect(t, errorsOfShop, []string{"NOT_LEADER_OR_FOLLOWER"})
	write(t, shop, topic, "another order")
	expect(t, values(cluster, topic), []string{"one order", "another order"})
}

func TestOrderWhoseAnswerIsLostIsWrittenOnce(t *testing.T) {
	cluster := server.Cluster(t, Words{"nodes": 1})
	topic := cluster.Topic("orders", nil)
	fault := cluster.Fault(Words{"api": "Produce", "topic": topic, "lose_answer": true, "times": 1})
	write(t, newShop(t, cluster), topic, "one order")
	fault.Wait("fired", 1)
	expect(t, values(cluster, topic), []string{"one order"})
}

func TestNoOrderIsLostWhenTheLeaderDies(t *testing.T) {
	cluster := server.Cluster(t, Words{"nodes": 3})
	topic := cluster.Topic("orders", Words{"replicas": 3})
	shop := newShop(t, cluster)
	write(t, shop, topic, "before")
	killed := cluster.Act("kill", Words{"leader_of": []any{topic, 0}})
	write(t, shop, topic, "after")
	if started := cluster.Act("start", nil); !slices.Equal(started, killed) {
		t.Fatalf("nodes %v were killed, and %v started", killed, started)
	}
	cluster.WaitFor(Words{"in_sync": topic})
	expect(t, values(cluster, topic), []string{"before", "after"})
}

func TestOrderIsAcknowledgedAfterTheLinkIsWhole(t *testing.T) {
	cluster := server.Cluster(t, Words{"nodes": 1})
	topic := cluster.Topic("orders", nil)
	shop := newShop(t, cluster)
	write(t, shop, topic, "before")
	link := cluster.Link(Words{"client_id": "shop", "leader_of": []any{topic, 0}, "direction": "out", "cut": true})
	acknowledged := make(chan error, 1)
	order := &kgo.Record{Topic: topic, Value: []byte("meanwhile")}
	shop.Produce(context.Background(), order, func(_ *kgo.Record, err error) { acknowledged <- err })
	link.Wait("held", 1)
	expect(t, values(cluster, topic), []string{"before", "meanwhile"})
	select {
	case err := <-acknowledged:
		t.Fatalf("acknowledged over a link that is cut: %v", err)
	default:
	}
	link.End()
	if err := <-acknowledged; err != nil {
		t.Fatal(err)
	}
}

func TestWrongWordsAreRefused(t *testing.T) {
	cluster := server.Cluster(t, Words{"nodes": 1})
	err := server.Do("POST", "/clusters/"+cluster.Name+"/faults", Words{"api": "Prodduce", "hold": true}, nil)
	var refused *Refused
	if !errors.As(err, &refused) || refused.Status != 400 {
		t.Fatalf("%v is not status 400", err)
	}
}
