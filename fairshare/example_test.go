package fairshare_test

import (
	"fmt"

	"github.com/fairlead/fairlead/fairshare"
)

// Two tenants with work: three turns for the heavy one to one of the other.
func Example() {
	p := fairshare.New(1)
	p.Wake("gold", 3*fairshare.One)
	p.Wake("free", fairshare.One)
	for range 8 {
		turn, _ := p.Pick()
		fmt.Print(turn.Key, " ")
		p.Settle(turn, turn.Weight)
	}
	// Output: free gold gold gold free gold gold gold
}

// A batch is picked before anything is known of what waits. A lane that turns
// out to be empty is refunded and put to sleep; the credit is picked again.
func ExamplePicker_Refund() {
	p := fairshare.New(1)
	waiting := map[string]int{"acme": 1, "zeta": 10}
	for key := range waiting {
		p.Wake(key, fairshare.One)
	}
	for credit := 6; credit > 0; {
		var turns []fairshare.Turn
		for range credit {
			if turn, outcome := p.Pick(); outcome == fairshare.Picked {
				turns = append(turns, turn)
			}
		}
		for _, turn := range turns {
			if waiting[turn.Key] == 0 {
				p.Refund(turn)
				p.Sleep(turn.Key)
				continue
			}
			waiting[turn.Key]--
			credit--
			p.Settle(turn, fairshare.One)
			fmt.Print(turn.Key, " ")
		}
	}
	// Output: zeta acme zeta zeta zeta zeta
}

// The weight that a message really has is what its tenant pays for.
func ExamplePicker_Settle() {
	p := fairshare.New(1)
	p.Wake("acme", fairshare.One)
	turn, _ := p.Pick()
	p.Settle(turn, 4*fairshare.One)
	ahead := p.Snapshot()[0].Ahead
	fmt.Println("a turn of weight 4 costs", float64(ahead)/fairshare.TurnCost)
	// Output: a turn of weight 4 costs 0.25
}

// Nobody overtakes a key that is held at its turn.
func ExamplePicker_Hold() {
	p := fairshare.New(1)
	p.Wake("acme", fairshare.One)
	p.Hold("acme")
	_, outcome := p.Pick()
	fmt.Println(outcome)
	p.Unhold("acme")
	_, outcome = p.Pick()
	fmt.Println(outcome)
	// Output:
	// blocked
	// picked
}
