// Package krafttest gives tests in Go real Kafka clusters with faults, by the control port of `kraft test-server`.
//
// It is one file without dependencies: copy it into your module. The program is found on PATH, or named by the variable
// KRAFT; with KRAFT_CONTROL=HOST:PORT, a server that runs already is used. The words of faults, actions and waits are those
// of docs/testing-api.json. A refused request ends its test; Do returns it as an error instead.
package krafttest

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Words are those of a request, such as {"api": "Produce", "error": "REQUEST_TIMED_OUT", "times": 1}.
type Words map[string]any

// Refused is the error of a request that the server refuses, with the status of the HTTP response.
type Refused struct {
	Status int
	Reason string `json:"error"`
}

func (r *Refused) Error() string { return fmt.Sprintf("%s (status %d)", r.Reason, r.Status) }

// Server is a test server. Its clusters end with Close, or with this process.
type Server struct {
	control string
	process *exec.Cmd
	input   io.Closer
	lease   io.Closer
	name    string
}

// Start starts a server, or connects to that of KRAFT_CONTROL. TestMain is the place to call it.
func Start() (*Server, error) {
	server := &Server{control: os.Getenv("KRAFT_CONTROL")}
	if server.control == "" {
		if err := server.run(exec.Command(cmp.Or(os.Getenv("KRAFT"), "kraft"), "test-server", "--nodes", "1")); err != nil {
			return nil, err
		}
	}
	if err := server.takeLease(); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return server, nil
}

// run starts the program, which ends when its standard input is closed, and reads the line that it prints.
func (s *Server) run(process *exec.Cmd) error {
	process.Stderr = os.Stderr
	input, err := process.StdinPipe()
	if err != nil {
		return err
	}
	output, err := process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return fmt.Errorf("kraft test-server does not start; is it installed, or named by KRAFT? %w", err)
	}
	s.process, s.input = process, input
	line, err := bufio.NewReader(output).ReadBytes('\n')
	if err != nil {
		return errors.Join(fmt.Errorf("kraft test-server has ended: %w", err), s.Close())
	}
	var printed struct{ Control string }
	err = json.Unmarshal(line, &printed)
	s.control = printed.Control
	return err
}

// takeLease keeps a response open. If this process ends, its connection closes, and the clusters of the lease end.
func (s *Server) takeLease() error {
	response, err := http.Post("http://"+s.control+"/leases", "application/json", nil)
	if err != nil {
		return err
	}
	s.lease = response.Body
	var answer struct{ Lease string }
	err = json.NewDecoder(response.Body).Decode(&answer)
	s.name = answer.Lease
	return err
}

// Close ends the clusters, and the server if Start has started it.
func (s *Server) Close() error {
	var err error
	if s.lease != nil {
		err = s.lease.Close()
	}
	if s.process == nil {
		return err
	}
	return errors.Join(err, s.input.Close(), s.process.Wait())
}

// Do sends a request, and decodes the answer into a value that is not nil. The error may be a *Refused.
func (s *Server) Do(method, path string, body, answer any) error {
	var sent bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&sent).Encode(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequest(method, "http://"+s.control+path, &sent)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		refused := &Refused{Status: response.StatusCode}
		return errors.Join(refused, json.NewDecoder(response.Body).Decode(refused))
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// Cluster is a cluster of one test. BootstrapServers has the addresses of its nodes with commas between them, as most
// clients take them; Clients has the settings of a secured cluster by the name of a client, such as "java".
type Cluster struct {
	Name             string
	BootstrapServers string `json:"bootstrap_servers"`
	Clients          map[string]map[string]string
	server           *Server
	tb               testing.TB
}

// Cluster makes a cluster that serves, and that ends with the test. A test that fails logs the timeline of the cluster.
// The words are "nodes", "security", "config", "log_level" and "seed".
func (s *Server) Cluster(tb testing.TB, words Words) *Cluster {
	tb.Helper()
	cluster := &Cluster{server: s, tb: tb}
	body := Words{"lease": s.name}
	for word, value := range words {
		body[word] = value
	}
	if err := s.Do("POST", "/clusters", body, cluster); err != nil {
		tb.Fatalf("no cluster %v: %v", words, err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			for _, event := range cluster.Events() {
				tb.Logf("%8.3f s  node %v  %s  %v", event.Seconds, event.Node, event.Event, event.Fields)
			}
		}
		cluster.send("DELETE", "", nil, nil)
	})
	return cluster
}

// Servers returns the addresses of the nodes, as franz-go takes them.
func (c *Cluster) Servers() []string { return strings.Split(c.BootstrapServers, ",") }

func (c *Cluster) send(method, resource string, body, answer any) {
	c.tb.Helper()
	if err := c.server.Do(method, "/clusters/"+c.Name+resource, body, answer); err != nil {
		c.tb.Fatalf("%s %s %v: %v", method, resource, body, err)
	}
}

// Topic creates a topic with a unique name, which is returned. The words are "partitions", "replicas" and "config".
func (c *Cluster) Topic(name string, words Words) string {
	c.tb.Helper()
	body := Words{"name": name}
	for word, value := range words {
		body[word] = value
	}
	var created struct{ Name string }
	c.send("POST", "/topics", body, &created)
	return created.Name
}

// Act does something to a node: "kill", "pause", "resume", "stop", "start" or "restart". The words name the node, as in
// {"leader_of": [topic, 0]}. The ids of the nodes are returned.
func (c *Cluster) Act(action string, words Words) []int {
	c.tb.Helper()
	body := Words{"action": action}
	for word, value := range words {
		body[word] = value
	}
	var done struct{ Nodes []int }
	c.send("POST", "/actions", body, &done)
	return done.Nodes
}

// WaitFor waits for conditions, such as {"in_sync": topic}.
func (c *Cluster) WaitFor(words Words) {
	c.tb.Helper()
	c.send("POST", "/waits", words, nil)
}

// Change causes an event of Kafka, such as {"change": "move_leader", "topic": topic}.
func (c *Cluster) Change(words Words) {
	c.tb.Helper()
	c.send("POST", "/changes", words, nil)
}

// Record is a committed record of a topic.
type Record struct {
	Partition  int
	Offset     int64
	Key, Value []byte
}

// Records returns all committed records of a topic, by partition and offset.
func (c *Cluster) Records(topic string) []Record {
	c.tb.Helper()
	var answer struct{ Records []Record }
	c.send("GET", "/topics/"+topic+"/records", nil, &answer)
	return answer.Records
}

// Request is one that a node has got. Errors are those of its answer, by Kafka's names.
type Request struct {
	API      string
	ClientID string `json:"client_id"`
	Node     int
	Outcome  string
	Fault    string
	Errors   []struct{ Error string }
}

// Requests returns the history: the latest requests that match the words, of all nodes.
func (c *Cluster) Requests(words Words) []Request {
	c.tb.Helper()
	var answer struct{ Requests []Request }
	c.send("POST", "/requests", words, &answer)
	return answer.Requests
}

// Event is one that a node has reported, or that was done to a node.
type Event struct {
	Seconds      float64
	Node         *int
	Event, Level string
	Fields       map[string]any
}

// Events returns the timeline of the cluster.
func (c *Cluster) Events() []Event {
	c.tb.Helper()
	var answer struct{ Events []Event }
	c.send("GET", "/events", nil, &answer)
	return answer.Events
}

// Fault is in force until End, or until the end of the test. Fired and Held are its counts at the last request about it.
type Fault struct {
	ID          string
	Fired, Held int
	Ended       bool
	cluster     *Cluster
}

// Fault begins a fault of the protocol, such as {"api": "Produce", "topic": topic, "lose_answer": true, "times": 1}.
func (c *Cluster) Fault(words Words) *Fault { c.tb.Helper(); return c.begin("/faults", words) }

// Link begins a fault of links, such as {"client_id": "shop", "leader_of": [topic, 0], "cut": true}.
func (c *Cluster) Link(words Words) *Fault { c.tb.Helper(); return c.begin("/links", words) }

// Disk begins a fault of disks, such as {"node": 1, "full": true}.
func (c *Cluster) Disk(words Words) *Fault { c.tb.Helper(); return c.begin("/disks", words) }

// Clock begins a fault of clocks, such as {"node": 1, "offset_ms": -3600000}.
func (c *Cluster) Clock(words Words) *Fault { c.tb.Helper(); return c.begin("/clocks", words) }

func (c *Cluster) begin(resource string, words Words) *Fault {
	c.tb.Helper()
	fault := &Fault{cluster: c}
	c.send("POST", resource, words, fault)
	c.tb.Cleanup(fault.End)
	return fault
}

// Wait waits until it has "fired", or has "held" requests or connections, so often.
func (f *Fault) Wait(word string, count int) {
	f.cluster.tb.Helper()
	f.cluster.send("POST", "/faults/"+f.ID, Words{"wait": word, "count": count}, f)
}

// Release releases the requests that it holds now.
func (f *Fault) Release() {
	f.cluster.tb.Helper()
	f.cluster.send("POST", "/faults/"+f.ID, Words{"release": true}, f)
}

// End ends it, and takes its counts.
func (f *Fault) End() {
	f.cluster.tb.Helper()
	f.cluster.send("DELETE", "/faults/"+f.ID, nil, f)
}
