// Package fairshare decides whose turn it is among tenants that share one
// worker: a weighted fair share by key, exact at any batch size, decided by
// integers alone.
//
// # Concepts
//
// A key is a tenant. It is active while it is believed to have work; whether it
// really has is only known once it is asked. A turn is the right to the next
// message. A weight says how many turns a key is due relative to others.
//
// Every active key has a pass, a point on a line called virtual time. The lowest
// pass goes next, and a turn moves it forward by scale/weight: a key of weight 3
// moves a third as far, and so comes three times as often. This is stride
// scheduling (Waldspurger and Weihl, 1995). A key that comes back starts at
//
//	max(its own pass, virtual time)
//
// where virtual time is where the latest delivered turn began: the rule of
// start-time fair queueing (Goyal, Vin and Cheng, 1996). The first argument
// means that leaving does not cancel a debt, the second that time asleep earns
// nothing. Equal passes are ordered by a hash of key and seed, then by key: a
// total order, different in each agent.
//
// A turn goes through two steps, so that many can be picked before the first
// answer is known:
//
//	         Pick                     Settle: it brought a message; paid for at
//	active --------> unsettled turn --------> the weight the message really had
//	 key             (charged,       \
//	                  tentatively)    `-----> Refund: it brought nothing; undone
//
// The [Picker] is a pure value: no clock, lock, goroutine, random number or
// logger. The same calls give the same answers. Its owner is one goroutine.
//
// # Guarantees
//
//   - Fair: of two keys that both had work since a common start, with constant
//     weights, served/weight differs by at most one turn each, at every moment:
//     |n/v - m/w| <= 1/v + 1/w. From a start at the same pass it is at most the
//     larger of the two. With integer weights the order is exactly periodic:
//     weights 3 and 1 give 3 and 1 in every window of four.
//   - One-sided: over any stretch of time in which a key always had work, no
//     other key gets more than one turn each ahead of it, in service per weight,
//     however often it leaves and comes back.
//   - Work-conserving: as long as any key is active and none is held, Pick picks.
//   - Batches: n picks that are then settled and refunded in their order give
//     the deliveries that n single takes would give, in that order.
//   - No drift: n turns of one weight cost floor(n*scale/weight), for any n.
//     Passes compare as the exact rational numbers would. They never overflow.
//   - Deterministic: no pick depends on the order in which keys came at the same
//     instant, nor on the order of a map.
//   - Cheap: Pick, Settle, Refund, Wake and Sleep take O(log keys); Pick, Settle
//     and Refund do not allocate. Memory follows the active keys and those in
//     debt; an idle Picker keeps none. Debts are remembered up to 65,536 of them,
//     beyond which the smallest is forgiven, at most one turn.
//
// # Non-guarantees
//
//   - Nothing is shared between Pickers: the bound is per agent. N agents that
//     are each fair add up to N times the bound.
//   - A turn is a message, not the time that it takes to work on.
//   - Keys that come for the first time start level with all others. A stream of
//     ever new keys that by itself is more than the workers can do is served
//     before the second turn of old ones. Weights share between keys; they do
//     not protect from somebody who can make up keys.
//   - A changed weight prices the turns to come. What was delivered before is
//     paid at the weight it had, so a raised key's next turn may still be up to
//     one turn of the old weight away.
//   - Debts end with the busy period, when no key is active and no turn is
//     unsettled: nobody is left whom they could be owed to.
//   - Within a key, and about which messages exist, a Picker knows nothing.
package fairshare
