// Command report works through the day of orders twice and prints who waited how long: once through Fairlead (publish,
// then work with a handler, against a development agent of its own), once through one plain JetStream consumer, in order
// of arrival. Both start with all orders waiting, and run the same handler with the same concurrency.
//
//	go run ./examples/orders/report
//
// An order's wait is given in orders, that is how many others were begun before it, and in seconds. The first is free of
// noise: a busy machine changes the seconds and not the order.
package main
