// Package event holds what a run reports: one JSON object a line, for
// denials and, on request, for every flow.
//
//	w := event.NewWriter(file, event.Options{Run: id})
//	defer w.Close()
//	w.Emit(event.Event{Kind: event.Network, Action: event.Denied, Target: "x.example:443"})
//
// A [Writer] never holds its caller up and never grows without bound: what is
// past its rate, its queue or its size is counted, and the count is the last
// line. [Summary] remembers what was denied for the one line that a person
// reads at the end.
package event
