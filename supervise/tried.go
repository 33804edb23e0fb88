package supervise

import (
	"errors"
	"fmt"
	"time"

	"pinfold/plan"
	"pinfold/stub/seccomp"
	"pinfold/stub/wire"
)

// SampleCalls are the calls that the stub tries, with the answers that the
// filter of this mode gives.
func SampleCalls(arch string, mode seccomp.Mode) []wire.Call {
	var list []wire.Call
	for _, p := range seccomp.Sample(arch, mode) {
		list = append(list, wire.Call{Name: p.Name, Number: p.Number, Args: p.Args, Errno: uint32(p.Want)})
	}
	return list
}

// TakeTried takes the stub's word that the claims of the plan hold, after
// comparing that it has tried what it was to try.
func TakeTried(body []byte, asked *wire.Setup) (plan.Tried, error) {
	c, err := wire.DecodeTried(body)
	if err != nil {
		return plan.Tried{}, fmt.Errorf("the stub's account of what it tried is wrong: %w", err)
	}
	paths := c.Denied + c.ReadOnly + c.Writable + c.Left
	if paths != len(asked.Checks) || c.Calls != len(asked.Calls) || c.Hosts != 1 {
		return plan.Tried{}, errors.New("the stub hasn't tried what it was to try")
	}
	return plan.Tried{
		Denied: c.Denied, ReadOnly: c.ReadOnly, Writable: c.Writable, Calls: c.Calls, Hosts: c.Hosts, Left: c.Left, Micros: c.Micros,
	}, nil
}

// NoteTried puts it on record; nil has none.
func NoteTried(r *plan.Record, t plan.Tried) error {
	if r == nil {
		return nil
	}
	return r.Add(plan.Step{Time: time.Now(), Action: plan.ActionHeld, Kind: plan.KindCanaries, Detail: t.String()})
}
