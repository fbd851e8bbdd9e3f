package trend

import (
	"cmp"
	"slices"
	"time"
)

// Queue remembers the samples of one queue. The zero value has none. It is not safe for several goroutines.
type Queue struct {
	kept  []Sample // the oldest first; what the first one got is before the window
	noise Noise
}

// Add takes the next sample and returns what there is to say now, with at most rows tenants. A sample that is not later than
// the one before, as after a clock was set back, or one that comes after a gap longer than the window, begins anew.
func (q *Queue) Add(s Sample, rows int) View {
	if n := len(q.kept); n > 0 {
		if since := s.At.Sub(q.kept[n-1].At); since <= 0 || since > 4*Window {
			*q = Queue{}
		}
	}
	q.kept = append(q.kept, s)
	// The last one that is a whole window old stays as its beginning.
	for len(q.kept) > 2 && s.At.Sub(q.kept[1].At) >= Window {
		q.kept = slices.Delete(q.kept, 0, 1)
	}
	return q.view(rows)
}

func (q *Queue) view(rows int) View {
	now := &q.kept[len(q.kept)-1]
	v := View{Window: now.At.Sub(q.kept[0].At)}
	got, others := map[string]Got{}, Got{}
	for _, s := range q.kept[1:] {
		for key, g := range s.Got { // sums do not depend on the order, and of a key there is one
			sum := got[key]
			sum.Add(g)
			got[key] = sum
		}
		others.Add(s.Others)
	}
	all := tenants(*now, got)
	// Tenants that the sample was cut off before and that got nothing here: each is taken for one of weight 1.
	hidden := max(now.Total-len(all), 0)
	v.Active = len(all) + hidden
	weights := float64(hidden)
	v.Got = others
	for i := range all {
		weights += all[i].Weight
		v.Got.Add(all[i].Got)
	}
	v.Got.Weight = 0
	v.PerSecond = perSecond(v.Got, v.Window)
	noisy := q.noise.Add(*now, v.Active)
	for i := range all {
		r := &all[i]
		r.PerSecond, r.Share, r.Fair = perSecond(r.Got, v.Window), part(r.Got, v.Got), r.Weight/weights
		r.Noisy = noisy[r.Key]
		if r.Noisy {
			v.Noisy.add(*r)
		} else {
			v.Quiet.add(*r)
		}
	}
	unseen := Class{Tenants: hidden, Waiting: now.Waiting - min(listed(all), now.Waiting), Got: others, PerSecond: perSecond(others, v.Window), Share: part(others, v.Got)}
	if weights > 0 {
		unseen.Fair = float64(hidden) / weights
	}
	v.Quiet.merge(unseen) // those with the most waiting were not cut
	v.Tenants, v.Rest = pick(all, rows)
	v.Rest.merge(unseen)
	return v
}

// tenants returns all that are known to be active, in no particular order but always the same.
func tenants(now Sample, got map[string]Got) []Row {
	list := make([]Row, 0, len(now.Tenants)+len(got))
	for _, t := range now.Tenants {
		r := Row{Tenant: t, Got: got[t.Key]}
		if r.Got.Weight > 0 {
			r.Weight = r.Got.Weight // what it really was charged with
		}
		delete(got, t.Key)
		list = append(list, r)
	}
	for key, g := range got { // sorted below
		if g.Deliveries == 0 {
			continue
		}
		weight := g.Weight
		if weight <= 0 {
			weight = 1
		}
		list = append(list, Row{Tenant: Tenant{Key: key, Weight: weight}, Got: g})
	}
	slices.SortFunc(list, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Got.Deliveries, a.Got.Deliveries), cmp.Compare(a.Key, b.Key))
	})
	return list
}

// pick chooses who gets a row: half of them are for those with the most waiting, and the others for those that got the most,
// so that a crowd with backlogs does not hide who works along without one. all is sorted.
func pick(all []Row, rows int) (chosen []Row, rest Class) {
	if len(all) <= rows {
		return all, rest
	}
	half := (rows + 1) / 2
	others := slices.Clone(all[half:])
	slices.SortStableFunc(others, func(a, b Row) int { return cmp.Compare(b.Got.Deliveries, a.Got.Deliveries) })
	chosen = append(slices.Clone(all[:half]), others[:rows-half]...)
	for _, r := range others[rows-half:] {
		rest.add(r)
	}
	return chosen, rest
}

func (c *Class) merge(o Class) {
	c.Tenants += o.Tenants
	c.Waiting += o.Waiting
	c.Got.Add(o.Got)
	c.PerSecond += o.PerSecond
	c.Share += o.Share
	c.Fair += o.Fair
}

func listed(all []Row) (n uint64) {
	for _, r := range all {
		n += r.Waiting
	}
	return n
}

func perSecond(g Got, window time.Duration) float64 {
	if window <= 0 {
		return 0
	}
	return float64(g.Deliveries) / window.Seconds()
}

func part(g, all Got) float64 {
	if all.Deliveries == 0 {
		return 0
	}
	return float64(g.Deliveries) / float64(all.Deliveries)
}
