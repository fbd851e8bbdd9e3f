package broker

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
)

// Direction is what a [Permission] allows on its subject.
type Direction int

// The two directions.
const (
	Publish Direction = iota
	Subscribe
)

// String is the word of NATS for it.
func (d Direction) String() string {
	if d == Subscribe {
		return "subscribe"
	}
	return "publish"
}

// Permission is one thing that an identity needs in NATS.
type Permission struct {
	Direction Direction
	Subject   string // with wildcards
	For       string // what it is needed for: "queue orders: finish messages"
}

// right is a permission and how to find out, without doing anything, whether an identity has it.
type right struct {
	dir     Direction
	subject string // with wildcards
	may     string // what it is good for, after "may not"
	try     string // a subject under it; "" is the subject itself
	header  nats.Header
	body    string
	silent  bool // nobody answers there
}

// rightsOf is what an agent does with one stream.
type rightsOf struct {
	owner  string // "queue orders"
	stream string
	list   []right // without the right to look at the stream
	bucket []right // of the bucket, those of list that setting it up needs too; nil for streams of queues
}

// checkName is the name of what the check of rights asks for. Nothing has it.
const checkName = "fairlead-checks-access"

// refused is the body of a request that JetStream cannot read, and so answers without doing anything.
const refused = "-"

// elsewhere makes JetStream refuse a publish: no stream has this name.
var elsewhere = nats.Header{"Nats-Expected-Stream": {checkName}}

// badPurge is a purge that JetStream cannot read. What is no object at all it would take for a purge of everything.
const badPurge = `{"keep":"fairlead checks access"}`

// apiCall is the right to one call of JetStream's API on a stream.
func apiCall(verb, stream, may string) right {
	return right{subject: "$JS.API." + verb + "." + stream, may: may, body: refused}
}

// consumerCall is the right to a call about the consumers of a stream. JetStream answers about one that does not exist, or
// nobody does; both show the right.
func consumerCall(verb, stream, may string) right {
	r := right{subject: "$JS.API.CONSUMER." + verb + "." + stream + ".*", may: may, body: refused}
	if verb == "CREATE" {
		r.subject = "$JS.API.CONSUMER.CREATE." + stream + ".>"
	}
	r.try = "$JS.API.CONSUMER." + verb + "." + stream + "." + checkName
	return r
}

// settle is the right to acknowledge messages of a stream.
func settle(stream, may string) right {
	return right{subject: "$JS.ACK." + stream + ".>", may: may, try: "$JS.ACK." + stream + "." + checkName + ".1.1.1.1.0"}
}

// store is the right to store messages under a prefix.
func store(prefix, try, may string) right {
	return right{subject: prefix + ">", may: may, try: prefix + try, header: elsewhere}
}

// hear is the right to listen.
func hear(subject, may string) right { return right{dir: Subscribe, subject: subject, may: may} }

// tried is a subject under the right.
func (r right) tried() string { return cmp.Or(r.try, r.subject) }

// queueRights are those of the stream of a queue itself.
func queueRights(n names.Names, q config.Queue) rightsOf {
	stream := n.Stream(q.Name)
	r := rightsOf{owner: "queue " + q.Name, stream: stream, list: []right{
		store(n.SubjectPrefix(q.Name), names.NoPriority+"."+names.Unkeyed, "publish"),
		consumerCall("CREATE", stream, "make lane consumers"),
		consumerCall("DELETE", stream, "remove lane consumers"),
		apiCall("CONSUMER.LIST", stream, "list lane consumers"),
		consumerCall("MSG.NEXT", stream, "take messages"),
		settle(stream, "extend and return messages"),
		apiCall("STREAM.MSG.DELETE", stream, "finish messages"),
		apiCall("STREAM.MSG.GET", stream, "look at messages"),
		{subject: "$JS.API.DIRECT.GET." + stream, may: "find the oldest message", body: refused},
		{dir: Subscribe, subject: n.WakePrefix(q.Name) + ">", may: "listen for wake-ups", try: n.WakePrefix(q.Name) + "*.*"},
	}}
	if NewLayout(q).Serial() {
		r.list = append(r.list, apiCall("CONSUMER.NAMES", stream, "list names of lane consumers"),
			consumerCall("INFO", stream, "look at lane consumers"))
	}
	return r
}

// delayRights are those of the stream of a queue's delayed messages.
func delayRights(n names.Names, q config.Queue) rightsOf {
	stream := n.DelayStream(q.Name)
	scheduled := names.Delayed{Class: names.NoPriority, Token: names.Unkeyed, Handle: checkName}
	return rightsOf{owner: "queue " + q.Name, stream: stream, list: []right{
		store(n.DelayPrefix(q.Name), scheduled.Subject(), "publish delayed messages"),
		consumerCall("CREATE", stream, "make the consumer of due messages"),
		consumerCall("MSG.NEXT", stream, "take due messages"),
		settle(stream, "put due messages back"),
		apiCall("STREAM.MSG.GET", stream, "look at delayed messages"),
		apiCall("STREAM.MSG.DELETE", stream, "move and cancel delayed messages"),
	}}
}

// slotRights are those of the permits of a queue with a cap per key, or with ordered keys.
func slotRights(n names.Names, q config.Queue) rightsOf {
	stream, free := n.Slots(q.Name), n.Free(q.Name)
	nobodys := n.SlotPrefix(q.Name) + names.Unkeyed + ".0." + checkName
	return rightsOf{owner: "queue " + q.Name, stream: stream, list: []right{
		store(n.SlotPrefix(q.Name), names.Unkeyed+".0."+checkName, "claim permits"),
		{subject: free, may: "tell of permits that came free", silent: true},
		{subject: free + ".*", may: "tell of a key's permits that came free", try: free + "." + checkName, silent: true},
		apiCall("STREAM.MSG.GET", stream, "look at permits"),
		apiCall("STREAM.MSG.DELETE", stream, "give permits back"),
		{subject: "$JS.API.STREAM.PURGE." + stream, may: "remove permits of agents that are gone", body: `{"filter":"` + nobodys + `"}`},
		hear(free, "hear of permits that came free"),
		hear(free+".*", "hear of a key's permits that came free"),
		hear(n.BeatPrefix(q.Name)+"*", "hear of other holders of permits"),
	}}
}

// deadRights are those of the stream of a queue's dead letters.
func deadRights(n names.Names, q config.Queue) rightsOf {
	stream := n.DeadStream(q.Name)
	return rightsOf{owner: "dead letters of queue " + q.Name, stream: stream, list: []right{
		store(n.DeadPrefix(q.Name), names.NoPriority+"."+names.Unkeyed+".0", "be stored"),
		consumerCall("CREATE", stream, "be listed"),
		consumerCall("DELETE", stream, "stop being listed"),
		consumerCall("MSG.NEXT", stream, "be listed one by one"),
		apiCall("STREAM.MSG.GET", stream, "be read"),
		apiCall("STREAM.MSG.DELETE", stream, "be taken out"),
		{subject: "$JS.API.STREAM.PURGE." + stream, may: "be purged", body: badPurge},
	}}
}

// bucketRights are those of the coordination bucket. leased says that some queue has a single active consumer.
func bucketRights(n names.Names, leased bool) rightsOf {
	bucket := n.Bucket()
	stream := "KV_" + bucket
	r := rightsOf{owner: "bucket " + bucket, stream: stream, bucket: []right{
		store("$KV."+bucket+".", syncKey, "be written"),
		consumerCall("CREATE", stream, "be watched"),
		consumerCall("DELETE", stream, "stop being watched"),
		{subject: "$JS.FC." + stream + ".>", may: "be watched for long", try: "$JS.FC." + stream + "." + checkName, silent: true},
	}}
	r.list = append(slices.Clone(r.bucket), apiCall("STREAM.MSG.DELETE", stream, "be cleaned up"))
	if leased {
		r.list = append(r.list,
			apiCall("STREAM.MSG.GET", stream, "have its leases read"),
			hear("$JS.EVENT.ADVISORY.STREAM.DELETED."+stream, "be missed at once when it is deleted"))
	}
	return r
}

func inboxRight(n names.Names) right { return hear(n.InboxPrefix()+".>", "hear any answer") }

// infoRight is what only the check of access asks: whether there is JetStream at all.
func infoRight() right { return right{subject: "$JS.API.INFO", may: "ask whether there is JetStream"} }

// rights lists what agents with these queues do, stream by stream.
func rightsOfAll(n names.Names, queues []config.Queue) (list []rightsOf) {
	leased := false
	for _, q := range queues {
		leased = leased || q.SingleActiveConsumer
		list = append(list, queueRights(n, q), delayRights(n, q))
		if q.PermitsPerKey() > 0 {
			list = append(list, slotRights(n, q))
		}
		if q.DeadLetters.Enabled {
			list = append(list, deadRights(n, q))
		}
	}
	return append(list, bucketRights(n, leased))
}

// AgentPermissions lists all that an agent with these queues needs when it runs without setting them up, and nothing else.
func AgentPermissions(n names.Names, queues []config.Queue) []Permission {
	list := []Permission{infoRight().permission("validate --connect")}
	for _, group := range rightsOfAll(n, queues) {
		list = append(list, Permission{Publish, "$JS.API.STREAM.INFO." + group.stream, group.owner + ": look at the stream"})
		for _, r := range group.list {
			list = append(list, r.permission(group.owner))
		}
	}
	return append(list, inboxRight(n).permission("NATS"))
}

// SetupPermissions lists all that setting up these queues needs: "fairlead setup", and agents that make their streams
// themselves, which need those of [Names.AgentPermissions] too.
func SetupPermissions(n names.Names, queues []config.Queue) []Permission {
	list := []Permission{infoRight().permission("validate --connect")}
	for _, group := range rightsOfAll(n, queues) {
		list = append(list, Permission{Publish, "$JS.API.STREAM.INFO." + group.stream, group.owner + ": look at the stream"},
			Permission{Publish, "$JS.API.STREAM.CREATE." + group.stream, group.owner + ": make the stream"})
		if group.bucket == nil {
			list = append(list, Permission{Publish, "$JS.API.STREAM.UPDATE." + group.stream, group.owner + ": bring the stream to its definition"})
		}
		for _, r := range group.bucket {
			list = append(list, r.permission(group.owner))
		}
	}
	return append(list, inboxRight(n).permission("NATS"))
}

func (r right) permission(owner string) Permission {
	return Permission{r.dir, r.subject, owner + ": " + r.may}
}

// NotPermittedError says that NATS refuses this identity something that an agent needs. Nothing was done. It wraps
// [ErrUnavailable] and NATS's own permission violation.
type NotPermittedError struct {
	Direction Direction
	Subject   string     // as it was used
	Missing   Permission // what has to be allowed; zero if nothing here needs the subject
}

// Error implements error.
func (e *NotPermittedError) Error() string { return "broker: " + e.sentence() }

// sentence is the error for people, without the package.
func (e *NotPermittedError) sentence() string {
	words := map[Direction]string{Publish: "publish to", Subscribe: "subscribe to"}
	s := fmt.Sprintf("permissions violation: NATS does not let this identity %s %q", words[e.Direction], e.Subject)
	if e.Missing.Subject == "" {
		return s
	}
	if e.Missing.For != "" {
		s += " (" + e.Missing.For + ")"
	}
	s += ": allow it"
	if e.Missing.Subject != e.Subject {
		s += fmt.Sprintf(" to %s %q", words[e.Direction], e.Missing.Subject)
	}
	return s + "; \"fairlead permissions\" lists all that it needs"
}

// Unwrap makes errors.Is true for ErrUnavailable and nats.ErrPermissionViolation.
func (e *NotPermittedError) Unwrap() []error {
	return []error{ErrUnavailable, nats.ErrPermissionViolation}
}
