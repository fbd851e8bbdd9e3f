package config

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v3"
)

const (
	defaultPrefix = "fl"
	defaultBucket = "fairlead"
)

var natsTable = &record[NATS]{
	fields: []field[NATS]{
		prop("url", func(n *NATS) *[]string { return &n.URLs }, urls{},
			"A server's address, or a list of the servers of one cluster. nats://, tls://, ws:// or wss://."),
		prop("embedded", func(n *NATS) **Embedded { return &n.Embedded }, pointer[Embedded]{embeddedTable},
			"A JetStream server inside the agent, instead of url. For one host: its data has no replicas."),
		propOr("prefix", func(n *NATS) *string { return &n.Prefix },
			text{what: "a prefix", pattern: regexp.MustCompile(`^[a-z][a-z0-9_-]{0,15}$`), rule: "write a letter and up to 15 of a-z 0-9 _ -, in lower case"}, defaultPrefix,
			"Of subjects and, in upper case, of streams. Two environments in one account need two."),
		prop("creds", func(n *NATS) *string { return &n.Creds }, path, "Path of a credentials file."),
		prop("nkey", func(n *NATS) *string { return &n.NKey }, path, "Path of an NKey seed file."),
		prop("user", func(n *NATS) *string { return &n.User }, text{what: "a user's name", longest: 256}, "User's name; goes with password_file."),
		prop("password_file", func(n *NATS) *string { return &n.PasswordFile }, path, "Path of a file that holds the user's password."),
		prop("token_file", func(n *NATS) *string { return &n.TokenFile }, path, "Path of a file that holds a token."),
		prop("tls", func(n *NATS) **TLS { return &n.TLS }, pointer[TLS]{tlsTable}, "PEM files of the TLS connection."),
	},
	finish: finishNATS,
	more:   object{"oneOf": []object{{"required": []string{"url"}}, {"required": []string{"embedded"}}}},
}

var path = text{what: "a path"}

var embeddedTable = &record[Embedded]{fields: []field[Embedded]{
	propOr("store_dir", func(e *Embedded) *string { return &e.StoreDir },
		text{what: "a path", verify: notEmpty}, "./data",
		"Folder of the server's files. In a container it belongs on a volume."),
	prop("listen", func(e *Embedded) *string { return &e.Listen }, address,
		"host:port for other NATS clients. Absent: only the agent itself reaches the server."),
	syncField(),
}}

var tlsTable = &record[TLS]{
	fields: []field[TLS]{
		prop("ca", func(t *TLS) *string { return &t.CA }, path, "Certificates of the authorities to trust."),
		prop("cert", func(t *TLS) *string { return &t.Cert }, path, "The client's certificate; goes with key."),
		prop("key", func(t *TLS) *string { return &t.Key }, path, "The client's private key; goes with cert."),
	},
	finish: func(d *decoder, at string, t *TLS) {
		if (t.Cert == "") != (t.Key == "") {
			d.report(at, "cert and key go together: write both or neither")
		}
	},
}

// syncField is sync_interval: a time, or the word always.
func syncField() field[Embedded] {
	const always = "always"
	interval := duration{time.Millisecond, time.Hour}
	f := prop("sync_interval", func(e *Embedded) *time.Duration { return &e.SyncInterval }, interval,
		"How much acknowledged work a power cut may take, or always: every write reaches the disk first, at a fifth of the speed or less.")
	f.start = func(e *Embedded) { e.SyncInterval = 2 * time.Minute }
	f.read = func(d *decoder, n *yaml.Node, at string, e *Embedded) {
		readValue[time.Duration](d, syncShape{interval, e}, n, at, &e.SyncInterval)
	}
	f.appendJSON = func(b []byte, e *Embedded) []byte {
		if e.SyncAlways {
			return appendString(b, always)
		}
		return interval.appendJSON(b, e.SyncInterval)
	}
	f.schema = func() object {
		return object{"default": "2m", "anyOf": []object{{"const": always}, interval.schema()}}
	}
	f.words = func() (string, string) {
		kind, bounds := interval.words()
		return kind, bounds + ", or " + always
	}
	return f
}

// syncShape reads sync_interval into both fields that it stands for.
type syncShape struct {
	duration
	of *Embedded
}

func (s syncShape) read(d *decoder, v value, at string, into *time.Duration) {
	if v.kind == yaml.ScalarNode && v.text == "always" {
		s.of.SyncAlways, *into = true, 0
		return
	}
	s.duration.read(d, v, at, into)
}

// urls is one address, several in one text with commas between, or a list.
type urls struct{}

var addressList = list[string]{item: text{what: "a NATS address", verify: natsURL}, low: 1, high: 100, ofWhat: "NATS addresses"}

func (urls) read(d *decoder, v value, at string, into *[]string) {
	if v.kind == yaml.SequenceNode {
		addressList.read(d, v, at, into)
	} else {
		var all string
		text{what: "a NATS address, or a list of them"}.read(d, v, at, &all)
		if !d.sound(at) {
			return
		}
		for one := range strings.SplitSeq(all, ",") {
			one = strings.TrimSpace(one)
			if problem := natsURL(one); problem != "" {
				d.report(at, "%s", problem)
				return
			}
			*into = append(*into, one)
		}
	}
	web := func(s string) bool { return strings.HasPrefix(s, "ws") }
	if slices.ContainsFunc(*into, web) && slices.ContainsFunc(*into, func(s string) bool { return !web(s) }) {
		d.report(at, "mixes ws:// or wss:// with other schemes: use one kind")
	}
}

func (urls) appendJSON(b []byte, v []string) []byte { return addressList.appendJSON(b, v) }

func (urls) schema() object {
	return object{"anyOf": []object{{"type": "string"}, addressList.schema()}}
}

func (urls) words() (string, string) {
	return "address, or list of them", "nats://, tls://, ws://, wss://; a list is of up to " + strconv.Itoa(addressList.high) + " servers of one cluster"
}

// natsURL never repeats the address itself: it may hold a password.
func natsURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Hostname() == "" {
		return "wants a NATS address: write nats://HOST:4222"
	}
	switch u.Scheme {
	case "nats", "tls", "ws", "wss":
		return ""
	}
	return "the scheme " + shorten(u.Scheme) + ":// is not one of nats://, tls://, ws://, wss://"
}

func notEmpty(s string) string {
	if s == "" {
		return "is empty: write a path"
	}
	return ""
}

// finishNATS makes sure that there is one server and at most one way to sign
// in to it.
func finishNATS(d *decoder, at string, n *NATS) {
	remote, inside := join(at, "url"), join(at, "embedded")
	switch {
	case d.isSet(remote) && d.isSet(inside):
		d.report(inside, "url and embedded are both there: keep the server that the agent should use")
	case !d.isSet(remote) && !d.isSet(inside) && d.sound(remote, inside):
		d.report(at, "has no server: write `url: nats://HOST:4222`, or `embedded: {store_dir: ./data}` for one inside the agent")
	}
	if (n.User == "") != (n.PasswordFile == "") {
		d.report(nearest(d, join(at, "user"), join(at, "password_file")), "user and password_file go together: write both or neither")
	}
	var ways []string
	for _, w := range []struct{ key, val string }{{"creds", n.Creds}, {"nkey", n.NKey}, {"user", n.User}, {"token_file", n.TokenFile}} {
		if w.val != "" {
			ways = append(ways, w.key)
		}
	}
	if len(ways) > 1 {
		d.report(join(at, ways[1]), "%s are both there: keep one way to sign in", strings.Join(ways, " and "))
	}
	if n.Embedded == nil || len(n.URLs) > 0 {
		return
	}
	if n.TLS != nil {
		ways = append(ways, "tls")
	}
	for _, w := range ways {
		d.report(join(at, w), "is for a server at url, and the embedded one needs none: remove it")
	}
}
