package metrics

import "github.com/prometheus/client_golang/prometheus"

// family is one metric: all series of a name.
type family struct {
	name, help string
	kind       prometheus.ValueType
	buckets    []float64 // of a histogram, in seconds
	labels     []string
	desc       *prometheus.Desc
}

// families are all that there are, in the order of the documentation, which a test compares with them.
var families []*family

func declare(f *family) *family {
	f.desc = prometheus.NewDesc(f.name, f.help, f.labels, nil)
	families = append(families, f)
	return f
}

func counter(name, help string, labels ...string) *family {
	return declare(&family{name: name, help: help, kind: prometheus.CounterValue, labels: labels})
}

func gauge(name, help string, labels ...string) *family {
	return declare(&family{name: name, help: help, kind: prometheus.GaugeValue, labels: labels})
}

func histogram(name, help string, buckets []float64, labels ...string) *family {
	return declare(&family{name: name, help: help, buckets: buckets, labels: labels})
}

func (f *family) counters() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.name, Help: f.help}, f.labels)
}

func (f *family) histograms() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: f.name, Help: f.help, Buckets: f.buckets}, f.labels)
}

// typeName is what Prometheus calls the kind.
func (f *family) typeName() string {
	switch {
	case f.buckets != nil:
		return "histogram"
	case f.kind == prometheus.CounterValue:
		return "counter"
	}
	return "gauge"
}

var (
	moments = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
	work    = []float64{.001, .005, .025, .1, .5, 1, 5, 15, 60, 300, 1800}
	waits   = []float64{.001, .005, .025, .1, .5, 1, 5, 15, 60, 300, 1800, 7200, 86400}
)

// Counted as it happens.
var (
	published = counter("fairlead_published_total", "Publishes on the sockets whose request was in order, by what came of them: stored, duplicate, delayed, or the code of the error.", "queue", "result")
	delivered = counter("fairlead_delivered_total", "Hand-overs of a message to an app.", "queue", "priority")
	settled   = counter("fairlead_settled_total", "Deliveries that have ended, by how: ack, nack, reject; expired, session_lost, unwritten (the app went away before the answer was written), drained, revoked (the queue's lease was lost); already_finished (an ack of what somebody else had finished), unknown (JetStream did not answer and decides by itself).", "queue", "result")
	wait      = histogram("fairlead_wait_seconds", "From when a message was stored to its first delivery. Noisy tenants have far more waiting than the others, quiet ones have not.", waits, "queue", "tenants")
	picking   = histogram("fairlead_pick_to_delivery_seconds", "From when the scheduler picked a lane to when its message was handed over.", moments, "queue")
	working   = histogram("fairlead_delivery_to_settle_seconds", "From when a message was handed over to when the delivery had ended, however.", work, "queue")
	reloads   = counter("fairlead_reloads_total", "Reloads of the file: applied, or refused, which left the old one in use.", "result")
)

// Read at each scrape.
var (
	refused         = counter("fairlead_refused_total", "Publishes that a limit refused.", "queue", "reason")
	evicted         = counter("fairlead_evicted_total", "Messages that made room for others in a full ring.", "queue", "priority")
	dead            = counter("fairlead_dead_total", "Messages moved to the dead letters.", "queue", "reason")
	dropped         = counter("fairlead_dropped_total", "Messages given up and not kept, because the queue keeps no dead letters.", "queue", "reason")
	burialsFailed   = counter("fairlead_burial_failures_total", "Messages that were given up and could not be moved to the dead letters yet.")
	deadRetried     = counter("fairlead_dead_retried_total", "Dead letters put back into their queues.")
	deadPurged      = counter("fairlead_dead_purged_total", "Dead letters deleted by an operator.")
	expired         = counter("fairlead_expired_total", "Messages removed because their time to live was over before anybody took them.", "queue", "priority")
	delayedMoved    = counter("fairlead_delayed_due_total", "Delayed messages that became due and entered their queue.")
	cancelled       = counter("fairlead_delayed_cancelled_total", "Delayed messages that were cancelled.")
	extended        = counter("fairlead_extended_total", "Leases that apps extended.")
	unavailable     = counter("fairlead_unavailable_settlements_total", "Settlements that were answered unavailable.")
	damaged         = counter("fairlead_damaged_payloads_total", "Deliveries rejected by the agent because their payload cannot be expanded.")
	withheld        = counter("fairlead_withheld_total", "Messages taken and not handed over: late (the queue's lease was lost), expired (a moment before), or double (live here already).", "reason")
	returned        = counter("fairlead_returned_total", "Messages given back to their lanes.")
	returnFailures  = counter("fairlead_return_failures_total", "Messages whose return JetStream did not confirm; it redelivers them by itself.")
	heldBack        = counter("fairlead_held_back_total", "Messages that arrived before their backoff or delay was over, and went back.")
	finishes        = counter("fairlead_finished_total", "Messages deleted from their queues: done, given up, expired, evicted or purged.")
	finishesUnknown = counter("fairlead_finishes_unknown_total", "Deletes that JetStream did not answer.")
	lanePulls       = counter("fairlead_lane_pulls_total", "Questions to lanes.", "queue")
	emptyPulls      = counter("fairlead_empty_lane_pulls_total", "Questions to lanes that brought nothing.", "queue")
	lanesMade       = counter("fairlead_lanes_made_total", "Lane consumers made or found.")
	lanesLost       = counter("fairlead_lanes_lost_total", "Lane consumers that had to be made again.")
	wakeups         = counter("fairlead_wakeups_total", "Wake-ups heard.", "queue")
	sweeps          = counter("fairlead_sweeps_total", "Sweeps: looks at which lanes hold messages.", "queue")
	repaired        = counter("fairlead_repaired_total", "Messages moved from subjects that are not canonical.")
	poison          = counter("fairlead_unusable_metadata_total", "Messages of plain NATS publishers with an unusable weight, level or key.", "what")

	concurrency = gauge("fairlead_capsule_concurrency", "The most messages that the apps of a capsule may hold.", "capsule")
	credit      = gauge("fairlead_capsule_credit_messages", "Messages asked for and not got: above 0, apps wait for work.", "capsule")
	inHand      = gauge("fairlead_capsule_in_flight_messages", "Messages delivered by this agent and not settled.", "capsule")
	pulls       = gauge("fairlead_capsule_pulls", "Open pulls.", "capsule")
	demand      = gauge("fairlead_capsule_demand", "1 while an app uses the capsule.", "capsule")
	backsOff    = gauge("fairlead_backing_off", "1 while a capsule with a higher consumer priority has the queue.", "capsule", "queue")
	leaseState  = gauge("fairlead_lease_state", "1 for the capsule's part in a queue with a single active consumer, 0 for the others: holder, handing_over, standby, idle.", "capsule", "queue", "state")
	leaseFence  = gauge("fairlead_lease_fence", "The fence of the lease that is held, by whoever holds it.", "capsule", "queue")
	paused      = gauge("fairlead_paused", "1 while an operator has paused the queue.", "queue")
	mostStored  = gauge("fairlead_limit_messages", "The most messages that may be stored; absent without a limit.", "queue")
	mostBytes   = gauge("fairlead_limit_bytes", "The most bytes that may be stored; absent without a limit.", "queue")
	peers       = gauge("fairlead_peers", "Other agents' capsules that are alive and serve the queue.", "queue")
	connected   = gauge("fairlead_broker_connected", "1 while NATS is connected.")
	reconnects  = counter("fairlead_broker_reconnects_total", "How often NATS was connected again.")
	readiness   = gauge("fairlead_ready", "1 while /readyz answers 200.")
	draining    = gauge("fairlead_draining", "1 while the agent drains.")
	warnings    = gauge("fairlead_warnings", "Warnings in the agent's status.")
	sessions    = gauge("fairlead_sessions", "Open sessions.")
	info        = gauge("fairlead_info", "Always 1; the label tells the version.", "version")
)

// Sampled.
var (
	waiting       = gauge("fairlead_waiting_messages", "Messages that can be delivered now. This and the following are of the whole queue, whichever agents serve it.", "queue", "priority")
	inFlight      = gauge("fairlead_in_flight_messages", "Messages in somebody's hands.", "queue", "priority")
	delayed       = gauge("fairlead_delayed_messages", "Delayed messages, and those that back off after a failure.", "queue", "priority")
	oldest        = gauge("fairlead_oldest_age_seconds", "Age of the oldest stored message, in flight or not; 0 without any.", "queue", "priority")
	deadLetters   = gauge("fairlead_dead_letters", "Dead letters that are kept.", "queue")
	storedNow     = gauge("fairlead_stored_messages", "Messages in the queue's stream: what its limit counts.", "queue")
	bytes         = gauge("fairlead_stored_bytes", "Size of what is stored, as JetStream counts it.", "queue")
	tenants       = gauge("fairlead_tenants", "Tenants with messages.", "queue")
	noisyTenants  = gauge("fairlead_noisy_tenants", "Those with far more waiting than the others: at least 10 messages, and more than the mean of those with messages, or than twice the median of all that are active; and for 5 s more.", "queue")
	tenantBacklog = gauge("fairlead_tenants_waiting_messages", "Messages that can be delivered now, of noisy tenants and of quiet ones.", "queue", "tenants")
	lanes         = gauge("fairlead_lanes", "Lane consumers that exist.", "queue")
	keyWaiting    = gauge("fairlead_key_waiting_messages", "Messages of one tenant that can be delivered now: of the metrics.top_keys largest ones, so none by default.", "queue", "key")
	keyInFlight   = gauge("fairlead_key_in_flight_messages", "Messages of one tenant in somebody's hands, of the same tenants.", "queue", "key")
	sampleAge     = gauge("fairlead_sample_age_seconds", "How old the sample is. Without one that is fresh enough, the queue's sampled metrics are left out.", "queue")
	sampleFailure = counter("fairlead_sample_failures_total", "Samples that JetStream did not answer.")
)
