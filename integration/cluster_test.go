package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A cluster is three servers on loopback that replicate what they store.
type cluster struct {
	*natsServer // a client's view of all of them; it has no process of its own
	nodes       []*node
}

// A node is one server of a cluster.
type node struct {
	*natsServer
	name    string
	monitor string // its HTTP address
	routes  []*link
}

const clusterSize = 3

// clusters bounds how many there are at a time: three servers and the load on them keep a core busy.
var clusters = make(chan struct{}, runtime.GOMAXPROCS(0))

// startCluster runs three servers and waits until they have found each other. Each reaches each other one by a network of
// its own.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	clusters <- struct{}{}
	t.Cleanup(func() { <-clusters }) // the last of its clean-ups
	var urls []string
	ports := make([]int, clusterSize)
	for i := range ports {
		ports[i] = freePort(t)
	}
	c := &cluster{natsServer: &natsServer{t: t}}
	for i := range clusterSize {
		n := &node{name: fmt.Sprintf("n%d", i+1)}
		c.nodes = append(c.nodes, n)
	}
	for i, n := range c.nodes {
		var routes []string
		for j, other := range c.nodes {
			if i != j {
				l := newLink(t, fmt.Sprintf("127.0.0.1:%d", ports[j]))
				routes = append(routes, l.url)
				n.routes, other.routes = append(n.routes, l), append(other.routes, l)
			}
		}
		monitor := freePort(t)
		n.monitor = fmt.Sprintf("http://127.0.0.1:%d", monitor)
		file := filepath.Join(folder(t), "nats.conf")
		// What it tells others of its own address leads nowhere: they are to use their network to it.
		text := fmt.Sprintf("server_name: %s\nhttp: \"127.0.0.1:%d\"\ncluster: {name: test, listen: \"127.0.0.1:%d\", advertise: \"127.0.0.1:1\", routes: [%s]}\n",
			n.name, monitor, ports[i], strings.Join(routes, ", "))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		n.natsServer = &natsServer{t: t, port: freePort(t), dir: folder(t), flags: []string{"-c", file}}
		n.url = fmt.Sprintf("nats://127.0.0.1:%d", n.port)
		urls = append(urls, n.url)
		n.launch()
	}
	c.url = strings.Join(urls, ",")
	for _, n := range c.nodes {
		n.awaitJetStream()
	}
	c.awaitHealthy()
	return c
}

// cut keeps a server from hearing the others, and them from hearing it. Silently, or so that both sides see that connections
// break. What agents have to it is not touched.
func (n *node) cut(silently bool) {
	injected(n.t, "partition", "nats-server "+n.name)
	for _, l := range n.routes {
		if silently {
			l.change(linkState{toServer: true, toAgent: true})
		} else {
			l.change(linkState{refused: true})
			l.breakAll()
		}
	}
}

// heal ends a cut.
func (n *node) heal() {
	for _, l := range n.routes {
		l.change(linkState{})
	}
}

// again starts a node that was killed, and waits until it has caught up.
func (n *node) again() {
	n.t.Helper()
	n.launch()
	n.awaitJetStream()
}

// healthy asks a node whether it is current with all streams and consumers that it has a part in.
func (n *node) healthy() bool {
	client := http.Client{Timeout: time.Second}
	answer, err := client.Get(n.monitor + "/healthz")
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// awaitHealthy waits until all nodes run and are current.
func (c *cluster) awaitHealthy() {
	c.t.Helper()
	eventually(c.t, "all servers of the cluster are current", 4*patience, func() bool {
		for _, n := range c.nodes {
			if !n.healthy() {
				time.Sleep(100 * time.Millisecond) // the servers log each question that they answer with no
				return false
			}
		}
		return true
	})
}

// named finds a node.
func (c *cluster) named(name string) *node {
	c.t.Helper()
	for _, n := range c.nodes {
		if n.name == name {
			return n
		}
	}
	c.t.Fatalf("the cluster has no server %q", name)
	return nil
}

// leader is the server that leads a stream.
func (c *cluster) leader(stream string) *node {
	c.t.Helper()
	js, err := jetstream.New(c.connect())
	if err != nil {
		c.t.Fatal(err)
	}
	var name string
	eventually(c.t, stream+" has a leader", patience, func() bool {
		s, err := js.Stream(c.t.Context(), stream)
		if err != nil || s.CachedInfo().Cluster == nil {
			return false
		}
		name = s.CachedInfo().Cluster.Leader
		return name != ""
	})
	return c.named(name)
}

// lane is a lane consumer of a stream, and the server that it lives on.
func (c *cluster) lane(stream string) (name string, at *node) {
	c.t.Helper()
	js, err := jetstream.New(c.connect())
	if err != nil {
		c.t.Fatal(err)
	}
	s, err := js.Stream(c.t.Context(), stream)
	if err != nil {
		c.t.Fatal(err)
	}
	server := ""
	eventually(c.t, stream+" has a lane", patience, func() bool {
		for info := range s.ListConsumers(c.t.Context()).Info() {
			if info.Cluster != nil && info.Cluster.Leader != "" {
				name, server = info.Name, info.Cluster.Leader
			}
		}
		return server != ""
	})
	return name, c.named(server)
}

// metaLeader is the server that decides where streams and consumers live.
func (c *cluster) metaLeader() *node {
	c.t.Helper()
	var name string
	client := http.Client{Timeout: time.Second}
	eventually(c.t, "the cluster has a leader", patience, func() bool {
		for _, n := range c.nodes {
			answer, err := client.Get(n.monitor + "/jsz")
			if err != nil {
				continue
			}
			var z struct {
				Meta struct {
					Leader string `json:"leader"`
				} `json:"meta_cluster"`
			}
			err = json.NewDecoder(answer.Body).Decode(&z)
			_ = answer.Body.Close()
			if err == nil && z.Meta.Leader != "" {
				name = z.Meta.Leader
				return true
			}
		}
		return false
	})
	return c.named(name)
}
