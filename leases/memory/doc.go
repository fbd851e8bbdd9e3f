// Package memory is a bucket in memory for the tests of whoever uses leases: it does what the real one does, and fails
// as it does when it is asked to.
//
// A [Bucket] has records; [Bucket.Open] is one client's view of one record, with its own [Faults]. Times pass by package
// time, so that tests under testing/synctest need not wait.
//
// # Guarantees
//
//   - Without faults it is linearizable, and its watches show every change within no time.
//   - It passes the contract of package storetest, as kvstore does.
//
// # Non-guarantees
//
//   - Nothing is kept when the process ends.
package memory
