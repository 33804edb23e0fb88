package policy

import "time"

// limit is any of the values of [Limits]; zero is none.
type limit interface{ float64 | int64 }

// choice picks one of two limits.
type choice int

const (
	firstGiven  choice = iota // the first, unless it is none
	lowestGiven               // the lower of those given
)

// eachLimit applies a choice to each limit of a and b.
func eachLimit(a, b Limits, c choice) Limits {
	return Limits{
		CPUs:        choose(a.CPUs, b.CPUs, c),
		Memory:      choose(a.Memory, b.Memory, c),
		PIDs:        choose(a.PIDs, b.PIDs, c),
		Files:       choose(a.Files, b.Files, c),
		FileSize:    choose(a.FileSize, b.FileSize, c),
		Tmp:         choose(a.Tmp, b.Tmp, c),
		Timeout:     time.Duration(choose(int64(a.Timeout), int64(b.Timeout), c)),
		IdleTimeout: time.Duration(choose(int64(a.IdleTimeout), int64(b.IdleTimeout), c)),
	}
}

func choose[T limit](a, b T, c choice) T {
	switch {
	case a == 0:
		return b
	case b == 0 || c == firstGiven:
		return a
	}
	return min(a, b)
}

// exceeded names the first limit that is above its ceiling, as documents
// write it; "" for none.
func exceeded(l, ceiling Limits) string {
	over := func(value, most float64) bool { return most != 0 && value > most }
	switch {
	case over(l.CPUs, ceiling.CPUs):
		return "cpus"
	case over(float64(l.Memory), float64(ceiling.Memory)):
		return "memory"
	case over(float64(l.PIDs), float64(ceiling.PIDs)):
		return "pids"
	case over(float64(l.Files), float64(ceiling.Files)):
		return "files"
	case over(float64(l.FileSize), float64(ceiling.FileSize)):
		return "file_size"
	case over(float64(l.Tmp), float64(ceiling.Tmp)):
		return "tmp"
	case over(float64(l.Timeout), float64(ceiling.Timeout)):
		return "timeout"
	case over(float64(l.IdleTimeout), float64(ceiling.IdleTimeout)):
		return "idle_timeout"
	}
	return ""
}
