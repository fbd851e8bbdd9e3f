package group

import "fmt"

// warnings says where the files of the agents differ. New ones are logged as well, once.
func (o *owner) warnings() []string {
	if !o.known {
		return nil
	}
	var all []string
	for i, q := range o.own {
		f := o.force[q.Name]
		if f == nil {
			continue
		}
		inForce := fmt.Sprintf("revision %d set by %s", f.stamp.Revision, author(f))
		say := func(format string, args ...any) {
			all = append(all, fmt.Sprintf("queue %s: %s", q.Name, fmt.Sprintf(format, args...)))
		}
		switch {
		case f.problem != "":
			say("this version cannot use the definition in force, %s (%s): this agent keeps to its own file until that agent's "+
				"file or this agent's version changes", inForce, f.problem)
		case !f.same(o.stamps[i]) && !o.undecided[q.Name]: // a lone agent's edit is in force in a moment
			say("this agent follows %s: its own file (revision %d) differs in: %s; to put it in force, raise its revision above %d",
				inForce, q.Revision, list(differences(q, f.queue)), f.stamp.Revision)
		}
		switch others := o.peers.strangers(q.Name, f); len(others) {
		case 0:
		case 1:
			say("agent %s carries another definition than the one in force (%s)", others[0], inForce)
		default:
			say("%d agents carry another definition than the one in force (%s): %s", len(others), inForce, list(others))
		}
	}
	now := make(map[string]bool, len(all))
	for _, w := range all {
		now[w] = true
		if !o.warned[w] {
			o.g.log.Warn(w)
		}
	}
	o.warned = now
	return all
}

func author(f *force) string {
	if f.setBy == "" {
		return "an unknown agent"
	}
	return f.setBy
}
