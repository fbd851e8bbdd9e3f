// Package names says what everything is called that Fairlead keeps in one NATS account: streams, subjects, and the tokens of
// which subjects are made. It is pure, and knows nothing of NATS but what a subject is.
//
// # Subjects
//
// A subject is a queue's prefix and a few tokens behind it. Those of a message are its class, which says its level, and its key:
//
//	fl.q.<queue>.p<level>.<key>                 a message with a priority ([Class])
//	fl.q.<queue>.d.<key>                        a message without one ([NoPriority])
//	fl.delay.<queue>.at.<class>.<key>.<handle>  a message whose time has not come ([Delayed])
//	fl.delay.<queue>.due.<class>.<key>.<handle> one whose time has come
//	fl.dead.<queue>.<class>.<key>.<seq>         a dead letter
//	fl.slot.<queue>.…, fl.beat.<queue>.…, fl.free.<queue>    permits: who has messages of a key in flight
//	fl.wake.<queue>.<class>.<key>               a wake-up
//
// The names of queues come out of the file, which allows nothing in them that means something in a subject.
//
// # Keys
//
// A tenant key can be any text of up to 128 bytes once encoded. As a token its letters, digits, - and _ stand for themselves, and
// every other byte becomes =XX in hex; no key at all is [Unkeyed].
//
// # Guarantees
//
//   - No byte of a key changes a subject's number of tokens, or acts as a wildcard: keys are encoded reversibly and injectively
//     ([EncodeKey], [DecodeKey]). No two tokens mean the same key, and no two keys have one token.
//   - [Class] and [ClassLevel], [Delayed.Subject] and [ParseDelayed], [NewHandle] and [ParseHandle] are inverse to each other; what
//     the first of a pair does not make, the second refuses.
//   - Two prefixes that differ in more than upper and lower case, or two queues, have no name in common.
//
// # Non-guarantees
//
//   - Keys that look alike are not the same: text is not normalised.
//   - Names of lanes are not here: they are made of a layout, which is the broker's.
package names
