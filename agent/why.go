package agent

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead/fairlead/agent/api"
	"github.com/fairlead/fairlead/agent/dispatch"
	"github.com/fairlead/fairlead/leases"
)

// capsuleQueues describes what a capsule does with each of its queues, in their order.
func (a *Agent) capsuleQueues(capsule string, st dispatch.Status) (list []api.CapsuleQueue) {
	for _, cc := range a.settings().Capsules {
		if cc.Name != capsule {
			continue
		}
		for _, name := range cc.Queues {
			q := api.CapsuleQueue{Name: name}
			i := slices.IndexFunc(st.Queues, func(s dispatch.QueueStatus) bool { return s.Name == name })
			if i >= 0 {
				q.Lanes, q.Paused, q.PausedKeys = st.Queues[i].Lanes, st.Queues[i].Paused, st.Queues[i].PausedKeys
			}
			q.BackOffFor = a.roles.backsOffFor(capsule, name)
			q.BacksOff = q.BackOffFor != ""
			var lease leases.Status
			if one := a.leases.find(capsule, name); one != nil {
				lease = one.runner.Status()
				showLease(&q, lease)
			}
			q.Why = a.why(&q, st, i >= 0, lease.Problem)
			list = append(list, q)
		}
	}
	return list
}

func showLease(q *api.CapsuleQueue, s leases.Status) {
	switch {
	case s.Fence != 0 && s.Yielding:
		q.Lease = api.LeaseHandingOver
	case s.Fence != 0:
		q.Lease = api.LeaseHolder
	case s.Wanted:
		q.Lease = api.LeaseStandby
	default:
		q.Lease = api.LeaseIdle
	}
	if s.Holder != "" {
		q.LeaseHolder, q.Fence, q.LeaseAgeSeconds = s.Holder, s.HolderFence, time.Since(s.Since).Seconds()
	}
}

// why says in a sentence why a capsule does not work on a queue now; "" when it does.
func (a *Agent) why(q *api.CapsuleQueue, st dispatch.Status, defined bool, problem error) string {
	switch {
	case a.State() == api.StateDraining:
		return "the agent drains: nothing more is taken"
	case !a.client.Connected():
		return "NATS cannot be reached: " + a.client.Connection().LastError
	case !defined:
		return "the queue is not set up yet; see the warnings"
	case q.Paused:
		return "paused by an operator; resume takes that back"
	case problem != nil:
		return "nobody can hold the queue's lease: " + leaseProblem(problem)
	case q.Lease == api.LeaseHolder && !st.Demand: // nobody else wants it
	case !st.SuspendedUntil.IsZero() && !st.Demand:
		return fmt.Sprintf("the app has died with what it got again and again: others come first for %v more", time.Until(st.SuspendedUntil).Round(time.Second))
	case !st.Demand:
		return "no app asks: there was no pull in the last 5 s"
	case q.Lease == api.LeaseStandby && q.LeaseHolder == "":
		return "stands by: nobody holds the queue's lease yet"
	case q.Lease == api.LeaseStandby:
		return fmt.Sprintf("stands by: %s is the single active consumer, with fence %d, for %v", q.LeaseHolder, q.Fence, time.Duration(q.LeaseAgeSeconds*float64(time.Second)).Round(time.Second))
	case q.Lease == api.LeaseHandingOver:
		return "hands the queue's lease over to a candidate with a higher consumer priority"
	case q.BacksOff:
		return "backs off: " + q.BackOffFor
	case st.InFlight >= st.Concurrency:
		return fmt.Sprintf("all %d slots of the capsule are in use", st.Concurrency)
	}
	return ""
}

// leaseProblem is what an operator can do about it.
func leaseProblem(err error) string {
	if errors.Is(err, leases.ErrGone) {
		return "the coordination bucket is gone; make it again with setup"
	}
	return err.Error()
}
