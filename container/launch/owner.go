package launch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"pinfold/container"
	"pinfold/guard"
	"pinfold/policy"
)

// HostLabel names a state directory: what is kept in one directory is one
// host's, as far as containers are concerned.
func HostLabel(state string) string {
	sum := sha256.Sum256([]byte(state))
	return hex.EncodeToString(sum[:16])
}

// Labels are what every container of a launch carries, less the digest.
func Labels(state string, owner guard.Owner) map[string]string {
	labels := map[string]string{container.LabelHost: HostLabel(state)}
	if owner.Execution != "" {
		labels[container.LabelExecution] = owner.Execution
	}
	if owner.Segment != "" {
		labels[container.LabelSegment] = owner.Segment
	}
	return labels
}

// seat is an execution's one place: while it is held nobody else may make a
// container for it.
type seat struct{ lock *os.File }

// SeatsName is where the places of executions are, beneath DirsName.
const SeatsName = "executions"

// take takes the place of an execution, and proves that no container has it.
// Stopped ones of earlier launches are removed. A launch without an execution
// has no place to take.
func take(ctx context.Context, p container.Provider, state string, owner guard.Owner) (*seat, error) {
	if owner.Execution == "" {
		return &seat{}, nil
	}
	s, err := lockSeat(state, owner.Execution)
	if err != nil {
		return nil, err
	}
	if err := clearSeat(ctx, p, state, owner.Execution); err != nil {
		return nil, errors.Join(err, s.leave())
	}
	return s, nil
}

func lockSeat(state, execution string) (*seat, error) {
	dir := filepath.Join(state, DirsName, SeatsName)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("cannot take the place of execution %q: %w", execution, err)
	}
	sum := sha256.Sum256([]byte(execution))
	f, err := os.OpenFile(filepath.Join(dir, hex.EncodeToString(sum[:16])), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot take the place of execution %q: %w", execution, err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(runningRefusal(execution, "another launch of it is under way"), f.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot take the place of execution %q: %w", execution, err), f.Close())
	}
	return &seat{lock: f}, nil
}

// leave gives the place back.
func (s *seat) leave() error {
	if s == nil || s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

// clearSeat asks the engine. A listing that fails is never "none".
func clearSeat(ctx context.Context, p container.Provider, state, execution string) error {
	labels := map[string]string{container.LabelHost: HostLabel(state), container.LabelExecution: execution}
	list, err := p.List(ctx, labels)
	if err != nil {
		return &policy.Refusal{
			Reason: policy.Unavailable, Code: "containers_unknown", Subject: execution, Err: err,
			Why: fmt.Sprintf("cannot tell whether execution %q has a container already: %v", execution, err),
			Fix: "see to it that the engine answers, then try again",
		}
	}
	for _, s := range list {
		if s.Alive() && s.Status != container.Removing { // which somebody has begun, and Remove waits for
			return runningRefusal(execution, fmt.Sprintf("container %.12s of it is %s", s.Ref.ID, s.Status))
		}
	}
	for _, s := range list {
		if err := p.Remove(ctx, s.Ref); err != nil {
			return fmt.Errorf("cannot remove container %.12s of an earlier launch: %w", s.Ref.ID, err)
		}
	}
	return nil
}

func runningRefusal(execution, why string) error {
	return &policy.Refusal{
		Reason: policy.Denied, Code: "container_running", Subject: execution, Rule: "--execution",
		Why: fmt.Sprintf("cannot launch for execution %q: %s", execution, why),
		Fix: "wait for its end, or end it: pinfold ps, pinfold stop --record DIR",
	}
}
