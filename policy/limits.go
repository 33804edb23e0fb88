package policy

import (
	"strconv"
	"time"
)

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

// exceeded names the first limit that is above its ceiling, and the ceiling,
// as documents write them; "" for none.
func exceeded(l, ceiling Limits) (name, most string) {
	whole := func(n int64) string { return strconv.FormatInt(n, 10) }
	over := func(value, most float64) bool { return most != 0 && value > most }
	switch {
	case over(l.CPUs, ceiling.CPUs):
		return "cpus", strconv.FormatFloat(ceiling.CPUs, 'f', -1, 64)
	case over(float64(l.Memory), float64(ceiling.Memory)):
		return "memory", sizeText(ceiling.Memory)
	case over(float64(l.PIDs), float64(ceiling.PIDs)):
		return "pids", whole(ceiling.PIDs)
	case over(float64(l.Files), float64(ceiling.Files)):
		return "files", whole(ceiling.Files)
	case over(float64(l.FileSize), float64(ceiling.FileSize)):
		return "file_size", sizeText(ceiling.FileSize)
	case over(float64(l.Tmp), float64(ceiling.Tmp)):
		return "tmp", sizeText(ceiling.Tmp)
	case over(float64(l.Timeout), float64(ceiling.Timeout)):
		return "timeout", ceiling.Timeout.String()
	case over(float64(l.IdleTimeout), float64(ceiling.IdleTimeout)):
		return "idle_timeout", ceiling.IdleTimeout.String()
	}
	return "", ""
}

// sizeText is a number of bytes as a document has it, in the largest unit
// that says it exactly.
func sizeText(bytes int64) string {
	for _, unit := range []struct {
		name  string
		shift int
	}{{"g", 30}, {"m", 20}, {"k", 10}} {
		if bytes>>unit.shift<<unit.shift == bytes && bytes != 0 {
			return strconv.FormatInt(bytes>>unit.shift, 10) + unit.name
		}
	}
	return strconv.FormatInt(bytes, 10)
}
