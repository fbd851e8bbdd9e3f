// Package storetest is the contract of [leases.Store] as tests: what a lease needs of the bucket that it is kept in.
//
// [Run] checks each promise by itself, [Linearizable] a random history of many clients under faults. A store is tested
// through a [Rig], which makes a bucket, opens clients to it, and does to it what operators do.
//
// # Guarantees
//
//   - A store that passes has the semantics that the machine of package leases is proved with.
//
// # Non-guarantees
//
//   - How fast a store is, and what it does when it is replicated and loses servers, is not tested here.
package storetest
