package engine

import (
	"encoding/json"

	"pinfold/container"
)

// ReadState reads what an inspect answers.
func ReadState(r container.Ref, answer []byte) (container.State, error) {
	var got inspectResponse
	if err := json.Unmarshal(answer, &got); err != nil {
		return container.State{}, err
	}
	return stateOf(r, got)
}
