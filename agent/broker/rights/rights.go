package rights

import (
	"cmp"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/fairlead/fairlead/agent/broker/names"
	"github.com/fairlead/fairlead/config"
)

// Right is a permission and how to find out, without doing anything, whether an identity has it.
type Right struct {
	Direction Direction
	Subject   string      // with wildcards
	May       string      // what it is good for, after "may not"
	Try       string      // a subject under it; "" is the subject itself
	Header    nats.Header // of the try; with Body, it sees to it that JetStream refuses or ignores it
	Body      string
	Silent    bool // nobody answers there
}

// Group is what an agent does with one stream.
type Group struct {
	Owner  string // "queue orders"
	Stream string
	List   []Right // without the right to look at the stream
	setup  []Right // of the bucket, those of List that setting it up needs too; nil for streams of queues
}

// checkName is the name of what the check of rights asks for. Nothing has it.
const checkName = "fairlead-checks-access"

// refused is the body of a request that JetStream cannot read, and so answers without doing anything.
const refused = "-"

// elsewhere makes JetStream refuse a publish: no stream has this name.
var elsewhere = nats.Header{"Nats-Expected-Stream": {checkName}}

// badPurge is a purge that JetStream cannot read. What is no object at all it would take for a purge of everything.
const badPurge = `{"keep":"fairlead checks access"}`

// Call is the right to one call of JetStream's API on a stream.
func Call(verb, stream, may string) Right {
	return Right{Subject: "$JS.API." + verb + "." + stream, May: may, Body: refused}
}

// consumerCall is the right to a call about the consumers of a stream. JetStream answers about one that does not exist, or
// nobody does; both show the right.
func consumerCall(verb, stream, may string) Right {
	r := Right{Subject: "$JS.API.CONSUMER." + verb + "." + stream + ".*", May: may, Body: refused}
	if verb == "CREATE" {
		r.Subject = "$JS.API.CONSUMER.CREATE." + stream + ".>"
	}
	r.Try = "$JS.API.CONSUMER." + verb + "." + stream + "." + checkName
	return r
}

// settle is the right to acknowledge messages of a stream.
func settle(stream, may string) Right {
	return Right{Subject: "$JS.ACK." + stream + ".>", May: may, Try: "$JS.ACK." + stream + "." + checkName + ".1.1.1.1.0"}
}

// store is the right to store messages under a prefix.
func store(prefix, try, may string) Right {
	return Right{Subject: prefix + ">", May: may, Try: prefix + try, Header: elsewhere}
}

// hear is the right to listen.
func hear(subject, may string) Right { return Right{Direction: Subscribe, Subject: subject, May: may} }

// Tried is a subject under the right.
func (r Right) Tried() string { return cmp.Or(r.Try, r.Subject) }

// OfQueue are the rights of the stream of a queue itself.
func OfQueue(n names.Names, q config.Queue) Group {
	stream := n.Stream(q.Name)
	r := Group{Owner: "queue " + q.Name, Stream: stream, List: []Right{
		store(n.SubjectPrefix(q.Name), names.NoPriority+"."+names.Unkeyed, "publish"),
		consumerCall("CREATE", stream, "make lane consumers"),
		consumerCall("DELETE", stream, "remove lane consumers"),
		Call("CONSUMER.LIST", stream, "list lane consumers"),
		consumerCall("MSG.NEXT", stream, "take messages"),
		settle(stream, "extend and return messages"),
		Call("STREAM.MSG.DELETE", stream, "finish messages"),
		Call("STREAM.MSG.GET", stream, "look at messages"),
		{Subject: "$JS.API.DIRECT.GET." + stream, May: "find the oldest message", Body: refused},
		{Direction: Subscribe, Subject: n.WakePrefix(q.Name) + ">", May: "listen for wake-ups", Try: n.WakePrefix(q.Name) + "*.*"},
	}}
	if q.SingleActiveConsumer || q.OrderedKeys { // their lanes are serial, and looked at one by one
		r.List = append(r.List, Call("CONSUMER.NAMES", stream, "list names of lane consumers"),
			consumerCall("INFO", stream, "look at lane consumers"))
	}
	return r
}

// OfDelayed are those of the stream of a queue's delayed messages.
func OfDelayed(n names.Names, q config.Queue) Group {
	stream := n.DelayStream(q.Name)
	scheduled := names.Delayed{Class: names.NoPriority, Token: names.Unkeyed, Handle: checkName}
	return Group{Owner: "queue " + q.Name, Stream: stream, List: []Right{
		store(n.DelayPrefix(q.Name), scheduled.Subject(), "publish delayed messages"),
		consumerCall("CREATE", stream, "make the consumer of due messages"),
		consumerCall("MSG.NEXT", stream, "take due messages"),
		settle(stream, "put due messages back"),
		Call("STREAM.MSG.GET", stream, "look at delayed messages"),
		Call("STREAM.MSG.DELETE", stream, "move and cancel delayed messages"),
	}}
}

// OfPermits are those of the permits of a queue with a cap per key, or with ordered keys.
func OfPermits(n names.Names, q config.Queue) Group {
	stream, free := n.Slots(q.Name), n.Free(q.Name)
	nobodys := n.SlotPrefix(q.Name) + names.Unkeyed + ".0." + checkName
	return Group{Owner: "queue " + q.Name, Stream: stream, List: []Right{
		store(n.SlotPrefix(q.Name), names.Unkeyed+".0."+checkName, "claim permits"),
		{Subject: free, May: "tell of permits that came free", Silent: true},
		{Subject: free + ".*", May: "tell of a key's permits that came free", Try: free + "." + checkName, Silent: true},
		Call("STREAM.MSG.GET", stream, "look at permits"),
		Call("STREAM.MSG.DELETE", stream, "give permits back"),
		{Subject: "$JS.API.STREAM.PURGE." + stream, May: "remove permits of agents that are gone", Body: `{"filter":"` + nobodys + `"}`},
		hear(free, "hear of permits that came free"),
		hear(free+".*", "hear of a key's permits that came free"),
		hear(n.BeatPrefix(q.Name)+"*", "hear of other holders of permits"),
	}}
}

// OfDeadLetters are those of the stream of a queue's dead letters.
func OfDeadLetters(n names.Names, q config.Queue) Group {
	stream := n.DeadStream(q.Name)
	return Group{Owner: "dead letters of queue " + q.Name, Stream: stream, List: []Right{
		store(n.DeadPrefix(q.Name), names.NoPriority+"."+names.Unkeyed+".0", "be stored"),
		consumerCall("CREATE", stream, "be listed"),
		consumerCall("DELETE", stream, "stop being listed"),
		consumerCall("MSG.NEXT", stream, "be listed one by one"),
		Call("STREAM.MSG.GET", stream, "be read"),
		Call("STREAM.MSG.DELETE", stream, "be taken out"),
		{Subject: "$JS.API.STREAM.PURGE." + stream, May: "be purged", Body: badPurge},
	}}
}

// OfBucket are those of the coordination bucket. leased says that some queue has a single active consumer.
func OfBucket(n names.Names, leased bool) Group {
	bucket := n.Bucket()
	stream := "KV_" + bucket
	r := Group{Owner: "bucket " + bucket, Stream: stream, setup: []Right{
		store("$KV."+bucket+".", names.SyncKey, "be written"),
		consumerCall("CREATE", stream, "be watched"),
		consumerCall("DELETE", stream, "stop being watched"),
		{Subject: "$JS.FC." + stream + ".>", May: "be watched for long", Try: "$JS.FC." + stream + "." + checkName, Silent: true},
	}}
	r.List = append(slices.Clone(r.setup), Call("STREAM.MSG.DELETE", stream, "be cleaned up"))
	if leased {
		r.List = append(r.List,
			Call("STREAM.MSG.GET", stream, "have its leases read"),
			hear("$JS.EVENT.ADVISORY.STREAM.DELETED."+stream, "be missed at once when it is deleted"))
	}
	return r
}

func inbox(n names.Names) Right { return hear(n.InboxPrefix()+".>", "hear any answer") }

// Info is what only the check of access asks: whether there is JetStream at all.
func Info() Right { return Right{Subject: "$JS.API.INFO", May: "ask whether there is JetStream"} }

// groups lists what agents with these queues do, stream by stream.
func groups(n names.Names, queues []config.Queue) (list []Group) {
	leased := false
	for _, q := range queues {
		leased = leased || q.SingleActiveConsumer
		list = append(list, OfQueue(n, q), OfDelayed(n, q))
		if q.PermitsPerKey() > 0 {
			list = append(list, OfPermits(n, q))
		}
		if q.DeadLetters.Enabled {
			list = append(list, OfDeadLetters(n, q))
		}
	}
	return append(list, OfBucket(n, leased))
}
