package fairshare

import (
	"math/big"
	"slices"
)

// oracle is the rule of the package, written down as directly as possible:
// rational numbers, linear search, no forgetting but the end of a busy period,
// and a tentative pass that is added up from the open turns each time it is
// needed. A turn of weight One costs 1.
type oracle struct {
	seed    uint64
	keys    map[string]*oracleKey
	virtual *big.Rat
}

type oracleKey struct {
	own    *big.Rat
	weight Weight
	open   []Weight
	active bool
	held   bool
}

func newOracle(seed uint64) *oracle {
	return &oracle{seed: seed, keys: map[string]*oracleKey{}, virtual: new(big.Rat)}
}

func cost(w Weight) *big.Rat { return big.NewRat(int64(One), int64(w.orOne())) }

func (o *oracle) wake(key string, w Weight) {
	k := o.keys[key]
	if k == nil {
		k = &oracleKey{own: new(big.Rat).Set(o.virtual)}
		o.keys[key] = k
	}
	if !k.active && k.own.Cmp(o.virtual) < 0 {
		k.own.Set(o.virtual)
	}
	k.active, k.weight = true, w.orOne()
}

func (o *oracle) sleep(key string) {
	if k := o.keys[key]; k != nil && k.active {
		k.active, k.held = false, false
	}
	o.endOfBusyPeriod()
}

func (o *oracle) setWeight(key string, w Weight) {
	if k := o.keys[key]; k != nil {
		k.weight = w.orOne()
	}
}

func (o *oracle) hold(key string, held bool) {
	if k := o.keys[key]; k != nil && k.active {
		k.held = held
	}
}

// tentative is the pass that picks go by.
func (o *oracle) tentative(key string) *big.Rat {
	k := o.keys[key]
	sum := new(big.Rat).Set(k.own)
	for _, w := range k.open {
		sum.Add(sum, cost(w))
	}
	return sum
}

// next is the active key with the least (pass, hash, key).
func (o *oracle) next() (key string, outcome Outcome) {
	for _, name := range o.names() {
		if !o.keys[name].active {
			continue
		}
		if outcome == Idle || o.before(name, key) {
			key, outcome = name, Picked
		}
	}
	if outcome == Picked && o.keys[key].held {
		outcome = Blocked
	}
	return key, outcome
}

func (o *oracle) before(a, b string) bool {
	if c := o.tentative(a).Cmp(o.tentative(b)); c != 0 {
		return c < 0
	}
	if ta, tb := tie(o.seed, a), tie(o.seed, b); ta != tb {
		return ta < tb
	}
	return a < b
}

func (o *oracle) pick(key string) {
	k := o.keys[key]
	k.open = append(k.open, k.weight)
}

func (o *oracle) settle(key string, charged, actual Weight) {
	k := o.close(key, charged)
	if k.own.Cmp(o.virtual) > 0 {
		o.virtual.Set(k.own)
	}
	k.own.Add(k.own, cost(actual))
	o.endOfBusyPeriod()
}

func (o *oracle) refund(key string, charged Weight) {
	o.close(key, charged)
	o.endOfBusyPeriod()
}

func (o *oracle) close(key string, charged Weight) *oracleKey {
	k := o.keys[key]
	i := slices.Index(k.open, charged)
	k.open = slices.Delete(k.open, i, i+1)
	return k
}

func (o *oracle) endOfBusyPeriod() {
	for _, k := range o.keys {
		if k.active || len(k.open) > 0 {
			return
		}
	}
	clear(o.keys)
	o.virtual = new(big.Rat)
}

// ahead is how far the key lies ahead of virtual time, with open turns charged.
func (o *oracle) ahead(key string) *big.Rat {
	return new(big.Rat).Sub(o.tentative(key), o.virtual)
}

func (o *oracle) names() []string {
	names := make([]string, 0, len(o.keys))
	for name := range o.keys {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
