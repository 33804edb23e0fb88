package recover

import (
	"pinfold/plan"
)

// Survey looks at every record beneath a state directory, and at more that lie
// elsewhere. One that can't be told about is in the list, and says why.
func Survey(state string, more []string) ([]Info, error) {
	paths, err := plan.Records(state)
	if err != nil {
		return nil, err
	}
	list := []Info{}
	for _, path := range append(paths, more...) {
		list = append(list, Look(path))
	}
	return list, nil
}

// Look looks at one record.
func Look(record string) Info {
	r, err := Open(record)
	if err != nil {
		return Info{Record: record, Why: err.Error()}
	}
	defer r.Close()
	return r.Info()
}
