package trend

import "time"

// View is what there is to say of a queue over a window.
type View struct {
	// Window is the time that the deliveries are of: as long as samples have been taken, up to [Window] and one sample more.
	// 0 after the first sample, when there is nothing to compare yet.
	Window    time.Duration
	Got       Got     // of all tenants
	PerSecond float64 // deliveries
	// Tenants are those with the most waiting and those that got the most, by what waits and then by what they got.
	Tenants []Row
	Rest    Class // the tenants that have no row
	Active  int   // tenants, with and without a row
	Quiet   Class
	Noisy   Class
}

// Row is one tenant.
type Row struct {
	Tenant
	Noisy     bool
	Got       Got
	PerSecond float64
	Share     float64 // of the deliveries, 0 to 1
	Fair      float64 // of the weights of all active tenants, 0 to 1
}

// Class is several tenants together.
type Class struct {
	Tenants   int
	Waiting   uint64
	Got       Got // its weight has no meaning
	PerSecond float64
	Share     float64
	Fair      float64
}

func (c *Class) add(r Row) {
	c.Tenants++
	c.Waiting += r.Waiting
	c.Got.Add(r.Got)
	c.PerSecond += r.PerSecond
	c.Share += r.Share
	c.Fair += r.Fair
}
