package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
)

// An order is one job of the day.
type order struct {
	id     string // of the tenant and a number that counts its orders through the day
	tenant string
	level  string
	second int // of the day
	items  int
	cents  int
}

// tenants are the shops and how many orders each has. One has nine tenths of all.
var tenants = []struct {
	name   string
	orders int
}{
	{"megamart", 9000},
	{"harbour-books", 160},
	{"tea-and-tin", 140},
	{"northwind", 120},
	{"pedal-works", 110},
	{"loom", 100},
	{"green-grocer", 90},
	{"lumen", 80},
	{"two-owls", 70},
	{"kiln", 60},
	{"saddle-co", 40},
	{"the-cobbler", 30},
}

// imported is how many of the big tenant's orders come in one file at night; the others come as customers do.
const imported = 6000

// source draws numbers. It uses only the generator's own 64 bits, which are the same on every machine and in every
// version of Go.
type source struct{ *rand.PCG }

func (s source) below(n int) int { return int(s.Uint64() % uint64(n)) } //nolint:gosec // n is a small positive constant

// day returns all orders by time of day.
func day() []order {
	s := source{rand.NewPCG(2026, 11)}
	var orders []order
	for _, t := range tenants {
		for i := range t.orders {
			o := order{tenant: t.name, level: s.level(), items: 1 + s.below(9)}
			o.cents = o.items * (199 + s.below(4800))
			if t.name == "megamart" && i < imported {
				o.second = 1*3600 + s.below(20*60)
			} else {
				o.second = s.openingHours()
			}
			orders = append(orders, o)
		}
	}
	slices.SortStableFunc(orders, func(a, b order) int { return cmp.Compare(a.second, b.second) })
	numbers := map[string]int{}
	for i := range orders {
		o := &orders[i]
		numbers[o.tenant]++
		o.id = fmt.Sprintf("%s-%04d", o.tenant, numbers[o.tenant])
	}
	return orders
}

// level is high for express orders, one in ten; low for those that may wait for tomorrow, three in ten; else medium.
func (s source) level() string {
	switch n := s.below(10); {
	case n == 0:
		return "high"
	case n < 7:
		return "medium"
	default:
		return "low"
	}
}

// openingHours draws a second between 8:00 and 22:00, most of them around 15:00: the sum of two even draws.
func (s source) openingHours() int {
	return 8*3600 + s.below(7*3600) + s.below(7*3600)
}
