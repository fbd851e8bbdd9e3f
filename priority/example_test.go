package priority_test

import (
	"fmt"

	"github.com/fairlead/fairlead/priority"
)

// drain takes all that waits, one message at a time.
func drain(q *priority.Queue, waiting []int) {
	for q.HasWork() {
		turn, _ := q.Pick()
		if waiting[turn.Level] == 0 {
			q.Refund(turn)
			q.Sleep(turn.Level, turn.Key)
			continue
		}
		waiting[turn.Level]--
		q.Settle(turn, turn.Weight)
		fmt.Print(turn.Level, " ")
	}
	fmt.Println()
}

func fill(q *priority.Queue) {
	for level := range q.Levels() {
		q.Wake(level, "acme", 1000)
	}
}

// Strict: nothing lower while anything higher waits.
func Example() {
	q := priority.New(3, 0, 1)
	fill(q)
	drain(q, []int{5, 2, 1})
	// Output: 0 0 0 0 0 1 1 2
}

// With a guard of two, each level lets a lower one have a turn after two of its
// own.
func ExampleNew_starvationGuard() {
	q := priority.New(3, 2, 1)
	fill(q)
	drain(q, []int{8, 4, 2})
	// Output: 0 0 1 0 0 1 0 0 2 0 0 1 1 2
}
