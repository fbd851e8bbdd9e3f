package config

// What is parsed and checked, but not implemented yet. A setting that would
// have no effect is refused instead of being ignored; whoever implements one
// deletes its line here.
//
// A line without a condition is refused when it is written at all: its default
// already describes what this version does not do.

type pending[T any] struct {
	path string
	// wanted reports whether the value asks for what is not there.
	wanted func(v *T) bool
	// instead is what else can be written, for messages.
	instead string
}

var pendingAgent = []pending[Config]{
	{"listen.dashboard_http", func(c *Config) bool { return c.Listen.DashboardHTTP != "" }, ""},
}

// There is none of a queue now.
var pendingQueue []pending[Queue]

// refuseUnavailable reports every setting of the file that is not implemented.
func refuseUnavailable(d *decoder, c *Config) {
	refuse(d, "", pendingAgent, c)
	for i := range c.Queues {
		refuse(d, index("queues", i)+".", pendingQueue, &c.Queues[i])
	}
}

func refuse[T any](d *decoder, prefix string, settings []pending[T], v *T) {
	for _, s := range settings {
		at := prefix + s.path
		if !d.isSet(at) || !d.sound(at) || s.wanted != nil && !s.wanted(v) {
			continue
		}
		instead := ""
		if s.instead != "" {
			instead = " or write " + s.instead
		}
		d.report(at, "not available yet in this version; remove it%s", instead)
	}
}

// Unavailable lists the settings of a definition that ask for what this
// version does not implement, by their paths. Files with such settings are
// refused, so this is for a definition that came from somewhere else, such as
// another agent. It says nothing of lines without a condition.
func (q Queue) Unavailable() []string {
	var paths []string
	for _, s := range pendingQueue {
		if s.wanted != nil && s.wanted(&q) {
			paths = append(paths, s.path)
		}
	}
	return paths
}
