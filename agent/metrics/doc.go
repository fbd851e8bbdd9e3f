// Package metrics shows an agent's numbers to Prometheus.
//
// There are three kinds, by where they come from:
//
//   - What happens is counted as it happens: a [Metrics] is the observer of the book of deliveries, and is told of publishes
//     and reloads.
//   - What is, such as credit, leases and peers, and what others count, is read at each scrape. That asks no server.
//   - What has to be asked of JetStream, such as how many messages wait and how old the oldest one is, is sampled in the
//     background while somebody scrapes, with pauses that grow with what the last sample took: at most 1 % of a core. A scrape shows
//     the last sample, and how old that is.
//
// # Labels
//
// All labels are bounded by the file, such as queues, levels and capsules, or by this code, such as results and reasons. The names of
// tenants appear only when they are asked for, and then only those with the largest backlogs. Without them tenants show as
// quiet and noisy, by the rule of package trend and the last sample.
//
// # Guarantees
//
//   - fairlead_delivered_total = the sum of fairlead_settled_total over all results + what is in flight, by queue, as soon as
//     nothing is on its way.
//   - A scrape never waits for NATS.
//   - No key of a tenant appears anywhere unless TopKeys is above 0; no payload, header, id or secret ever does.
//
// # Non-guarantees
//
//   - All but samples is of this agent alone, and starts at zero with it.
//   - How long messages waited is told by two clocks, the server's and this host's.
package metrics
