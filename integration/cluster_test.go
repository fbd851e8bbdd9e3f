package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
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
}

const clusterSize = 3

// startCluster runs three servers and waits until they have found each other.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	var routes, urls []string
	ports := make([]int, clusterSize)
	for i := range ports {
		ports[i] = freePort(t)
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", ports[i]))
	}
	c := &cluster{natsServer: &natsServer{t: t}}
	for i := range clusterSize {
		n := &node{name: fmt.Sprintf("n%d", i+1)}
		monitor := freePort(t)
		n.monitor = fmt.Sprintf("http://127.0.0.1:%d", monitor)
		file := filepath.Join(folder(t), "nats.conf")
		text := fmt.Sprintf("server_name: %s\nhttp: \"127.0.0.1:%d\"\ncluster: {name: test, listen: \"127.0.0.1:%d\", routes: [%s]}\n",
			n.name, monitor, ports[i], strings.Join(routes, ", "))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		n.natsServer = &natsServer{t: t, port: freePort(t), dir: folder(t), flags: []string{"-c", file}}
		n.url = fmt.Sprintf("nats://127.0.0.1:%d", n.port)
		urls = append(urls, n.url)
		c.nodes = append(c.nodes, n)
		n.launch()
	}
	c.url = strings.Join(urls, ",")
	for _, n := range c.nodes {
		n.awaitJetStream()
	}
	c.awaitHealthy()
	return c
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
	eventually(c.t, "all servers of the cluster are current", 2*patience, func() bool {
		for _, n := range c.nodes {
			if !n.healthy() {
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
