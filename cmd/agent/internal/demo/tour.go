package demo

import (
	"context"
	"math/rand/v2"
	"strings"
)

// perLane is how many messages each tenant publishes on each level.
const perLane = 15

var (
	levelLetters = []string{"H", "M", "L"}

	tourTenants = []tenant{
		{name: "acme", weight: "3", share: 3000, colour: "36"},
		{name: "globex", weight: "1", share: 1000, colour: "33"},
		{name: "initech", weight: "1", share: 1000, colour: "35"},
	}
)

// Tour publishes a mixed backlog of three tenants on three levels, takes it, and prints the backlog, the order and each
// tenant's share against its weight. Its error is ErrNotExact when a lower level came before a higher one, or a share was
// not as the weights say.
func Tour(ctx context.Context, s *Stage) error {
	backlog := mix()
	if err := s.publish(ctx, tourTenants, backlog); err != nil {
		return err
	}
	names := make([]string, len(tourTenants))
	for i, t := range tourTenants {
		names[i] = s.paint(t.colour, t.name+" (weight "+t.weight+")")
	}
	s.printf("Three tenants, %s, published %d messages on the levels High, Medium and Low.\nAs they were published:\n\n",
		strings.Join(names, ", "), len(backlog))
	s.row(backlog)

	order, err := s.work(ctx, tourTenants, len(backlog), 8)
	if err != nil {
		return err
	}
	s.printf("\nAs a worker got them, with pulls of 8 from the app socket:\n\n")
	s.row(order)

	inversions := 0
	for i := 1; i < len(order); i++ {
		if order[i].level < order[i-1].level {
			inversions++
		}
	}
	contested, total := contest(order)
	s.printf("\nLevels are strict: %d inversions. Inside a level the tenants share by weight. While all three had work:\n\n", inversions)
	exact := inversions == 0
	weights := int64(0)
	for _, t := range tourTenants {
		weights += t.share
	}
	for i, t := range tourTenants {
		want := float64(t.share) / float64(weights)
		got := float64(contested[i]) / float64(max(total, 1))
		exact = exact && int64(contested[i])*weights == int64(total)*t.share
		s.printf("  %-8s %s %5.1f %%   by weight %5.1f %%\n", t.name, s.paint(t.colour, bar(got, 40)), 100*got, 100*want)
	}
	if !exact {
		return ErrNotExact
	}
	return nil
}

// mix returns the backlog: the same one every time.
func mix() []message {
	var out []message
	for level := range levelLetters {
		for t := range tourTenants {
			for range perLane {
				out = append(out, message{level: level, tenant: t})
			}
		}
	}
	shuffle := rand.New(rand.NewPCG(1, 2))
	shuffle.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// contest counts the deliveries of each tenant while all of them had work. A round of turns gives each as many as its weight,
// so the heaviest runs dry after perLane/3 rounds; what comes later on a level is not contested.
func contest(order []message) (counts []int, total int) {
	round := 0
	for _, t := range tourTenants {
		round += int(t.share / 1000)
	}
	contested := round * perLane / int(tourTenants[0].share/1000)
	counts = make([]int, len(tourTenants))
	for level := range levelLetters {
		seen := 0
		for _, m := range order {
			if m.level == level && seen < contested {
				seen++
				counts[m.tenant]++
				total++
			}
		}
	}
	return counts, total
}

// row prints messages, level and tenant in two letters.
func (s *Stage) row(messages []message) {
	for i, m := range messages {
		if i%27 == 0 {
			if i > 0 {
				s.printf("\n")
			}
			s.printf("  ")
		}
		t := tourTenants[m.tenant]
		s.printf("%s ", s.paint(t.colour, levelLetters[m.level]+t.name[:1]))
	}
	s.printf("\n")
}
