package group

// situation is all that the decision about one queue depends on.
type situation struct {
	own   stamp  // what this agent's file says
	force *force // what is in force; nil: nothing
	// carried says that a live agent, other than this one, has the definition in force in its file.
	carried bool
	// outranked says that a live agent's file has a higher revision than this agent's. If anyone replaces what is in force,
	// it is that agent: else the definition would change twice.
	outranked bool
	// announced says that a stored heartbeat tells the others what this agent's file says. Without it a definition that
	// this agent puts in force looks like nobody's, and the next agent replaces it.
	announced bool
	// seen says that the mirror shows everything that was stored when this decision began. Without it an agent that has
	// just started, or whose watch fell silent, takes live agents for gone.
	seen bool
}

type verdict uint8

const (
	// announce: first this agent's heartbeat must be stored. What is in force holds meanwhile.
	announce verdict = iota
	// look: the definition would be replaced, but only after everything that is stored was seen.
	look
	// follow: the definition in force holds here.
	follow
	// keep: the definition in force cannot be used by this version, and is not this agent's to replace: its own holds here,
	// and the record stays as it is.
	keep
	// replace: this agent's definition is to be put in force, by compare-and-set on the record that this was decided on.
	replace
)

// decide says what becomes of the definition in force of one queue.
func decide(s situation) verdict {
	switch {
	case !s.announced:
		return announce
	case s.force != nil && s.force.same(s.own):
		return follow
	case s.force == nil, !s.outranked && (!s.carried || s.own.Revision > s.force.stamp.Revision):
		if !s.seen {
			return look
		}
		return replace
	case s.force.problem != "":
		return keep
	}
	return follow
}
