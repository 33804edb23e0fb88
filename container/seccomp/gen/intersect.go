//go:build linux

package main

import (
	"fmt"
	"slices"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"pinfold/stub/seccomp"
)

// low compares the 32 bits that the kernel takes of an argument: what stands
// above them must not get a value past a comparison of all 64.
const low = 0xffffffff

// intersect are the conditions under which a call is allowed by the default
// and by our rules: one of the lists must hold, an empty one always does.
func intersect(name string, allowed [][]specs.LinuxSeccompArg, rules []seccomp.Rule) ([][]specs.LinuxSeccompArg, error) {
	always := slices.ContainsFunc(allowed, func(a []specs.LinuxSeccompArg) bool { return len(a) == 0 })
	switch {
	case len(rules) == 0 && always:
		return [][]specs.LinuxSeccompArg{nil}, nil
	case len(rules) == 0:
		return allowed, nil
	case slices.ContainsFunc(rules, func(r seccomp.Rule) bool { return len(r.Args) == 0 }):
		return nil, nil
	}
	switch name {
	case "socket", "socketpair":
		return families(allowed, rules), nil
	case "ioctl":
		return complement(rules)
	case "prlimit64":
		return [][]specs.LinuxSeccompArg{{equal(0, low, 0)}}, nil
	case "chmod", "fchmod", "fchmodat", "fchmodat2", "creat", "mknod", "mknodat":
		return clear(name, rules)
	case "open", "openat":
		return either(name, rules)
	case "kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal":
		return unlike(name, rules)
	case "personality", "clone":
		return harmless(name, allowed, rules)
	}
	return nil, fmt.Errorf("%s: no way to merge its conditions", name)
}

// clear allows one argument without the bits that the rule refuses.
func clear(name string, rules []seccomp.Rule) ([][]specs.LinuxSeccompArg, error) {
	if len(rules) != 1 || len(rules[0].Args) != 1 || !slices.Equal(rules[0].Args[0].In, []uint32{rules[0].Args[0].Mask}) {
		return nil, fmt.Errorf("%s: its rule is more than a mask of one argument", name)
	}
	a := rules[0].Args[0]
	return [][]specs.LinuxSeccompArg{{equal(uint(a.Index), uint64(a.Mask), 0)}}, nil
}

// either allows what lacks the bits of the last argument, which all rules refuse,
// or those of the first, of which each refuses one.
func either(name string, rules []seccomp.Rule) ([][]specs.LinuxSeccompArg, error) {
	var first, last seccomp.Arg
	for _, r := range rules {
		if len(r.Args) != 2 || slices.ContainsFunc(r.Args, func(a seccomp.Arg) bool { return !slices.Equal(a.In, []uint32{a.Mask}) }) {
			return nil, fmt.Errorf("%s: its rule is more than masks of two arguments", name)
		}
		if last.Mask != 0 && (last.Mask != r.Args[1].Mask || last.Index != r.Args[1].Index || first.Index != r.Args[0].Index) {
			return nil, fmt.Errorf("%s: its rules have nothing in common", name)
		}
		last, first = r.Args[1], seccomp.Arg{Index: r.Args[0].Index, Mask: first.Mask | r.Args[0].Mask}
	}
	return [][]specs.LinuxSeccompArg{
		{equal(uint(last.Index), uint64(last.Mask), 0)},
		{equal(uint(first.Index), uint64(first.Mask), 0)},
	}, nil
}

// signalBits tell all signals apart, 1 to 64.
const signalBits = 7

// unlike allows every signal but one: some bit of its number is another. The
// engines' form knows no "masked and unequal".
func unlike(name string, rules []seccomp.Rule) ([][]specs.LinuxSeccompArg, error) {
	if len(rules) != 1 || len(rules[0].Args) != 1 || len(rules[0].Args[0].In) != 1 || rules[0].Args[0].Mask != 0 {
		return nil, fmt.Errorf("%s: its rule is more than one value of one argument", name)
	}
	a := rules[0].Args[0]
	var out [][]specs.LinuxSeccompArg
	for bit := range signalBits {
		mask := uint32(1) << bit
		out = append(out, []specs.LinuxSeccompArg{equal(uint(a.Index), uint64(mask), ^a.In[0]&mask)})
	}
	return out, nil
}

// refused evaluates our rules for one call.
func refused(rules []seccomp.Rule, args map[int]uint32) bool {
	return slices.ContainsFunc(rules, func(r seccomp.Rule) bool {
		return !slices.ContainsFunc(r.Args, func(a seccomp.Arg) bool { return !matches(a, args[a.Index]) })
	})
}

func matches(a seccomp.Arg, v uint32) bool {
	if a.Mask != 0 {
		v &= a.Mask
	}
	if a.NotIn != nil {
		return !slices.Contains(a.NotIn, v)
	}
	return slices.Contains(a.In, v)
}

// permitted evaluates the default's conditions for one call.
func permitted(allowed [][]specs.LinuxSeccompArg, args map[int]uint32) bool {
	return slices.ContainsFunc(allowed, func(list []specs.LinuxSeccompArg) bool {
		return !slices.ContainsFunc(list, func(a specs.LinuxSeccompArg) bool { return !holds(a, uint64(args[int(a.Index)])) })
	})
}

func holds(a specs.LinuxSeccompArg, v uint64) bool {
	switch a.Op {
	case specs.OpEqualTo:
		return v == a.Value
	case specs.OpLessThan:
		return v < a.Value
	case specs.OpMaskedEqual:
		return v&a.Value == a.ValueTwo
	}
	return false
}

// The numbers that are tried for a socket: every family and type there is,
// and every protocol that a family of ours names, with some that none does.
const (
	maxFamily   = 64
	maxType     = 16
	maxProtocol = 300
)

// families lists what socket(2) may be asked for, one by one.
func families(allowed [][]specs.LinuxSeccompArg, rules []seccomp.Rule) [][]specs.LinuxSeccompArg {
	var out [][]specs.LinuxSeccompArg
	for family := range uint32(maxFamily) {
		for kind := range uint32(maxType) {
			base := []specs.LinuxSeccompArg{equal(0, low, family), equal(1, maxType-1, kind)}
			protocols := protocolsOf(allowed, rules, family, kind)
			if len(protocols) == maxProtocol {
				out = append(out, base)
				continue
			}
			for _, p := range protocols {
				out = append(out, append(slices.Clone(base), equal(2, low, p)))
			}
		}
	}
	return out
}

func protocolsOf(allowed [][]specs.LinuxSeccompArg, rules []seccomp.Rule, family, kind uint32) []uint32 {
	var out []uint32
	for p := range uint32(maxProtocol) {
		args := map[int]uint32{0: family, 1: kind, 2: p}
		if permitted(allowed, args) && !refused(rules, args) {
			out = append(out, p)
		}
	}
	return out
}

func equal(index uint, mask uint64, value uint32) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: index, Value: mask, ValueTwo: uint64(value), Op: specs.OpMaskedEqual}
}

// complement allows every value of one argument but some. The engines' form
// knows no "masked and unequal", so the values that are left are cut into
// ranges of one prefix each, as a network is cut around an address.
func complement(rules []seccomp.Rule) ([][]specs.LinuxSeccompArg, error) {
	if len(rules) != 1 || len(rules[0].Args) != 1 || rules[0].Args[0].NotIn != nil || rules[0].Args[0].Mask != 0 {
		return nil, fmt.Errorf("%s: its rule is more than a few values of one argument", rules[0].Syscall)
	}
	a := rules[0].Args[0]
	return prefixes(uint(a.Index), a.In, 0, 32), nil
}

// prefixes covers the values that begin as value does, bits of which are
// still open, less those in without.
func prefixes(index uint, without []uint32, value uint32, bits int) [][]specs.LinuxSeccompArg {
	mask := uint64(low) &^ (1<<bits - 1)
	inside := func(v uint32) bool { return uint64(v)&mask == uint64(value) }
	if !slices.ContainsFunc(without, inside) {
		return [][]specs.LinuxSeccompArg{{equal(index, mask, value)}}
	}
	if bits == 0 {
		return nil
	}
	return append(prefixes(index, without, value, bits-1), prefixes(index, without, value|1<<(bits-1), bits-1)...)
}

// harmless keeps those of the default's single values that our rules let
// through. A mask of the default's must cover every one that ours refuse.
func harmless(name string, allowed [][]specs.LinuxSeccompArg, rules []seccomp.Rule) ([][]specs.LinuxSeccompArg, error) {
	var out [][]specs.LinuxSeccompArg
	for _, list := range allowed {
		if len(list) != 1 {
			return nil, fmt.Errorf("%s: a condition on several arguments", name)
		}
		a := list[0]
		switch {
		case a.Op == specs.OpMaskedEqual && covers(a, rules):
			out = append(out, list)
		case a.Op == specs.OpEqualTo && !refused(rules, map[int]uint32{int(a.Index): uint32(a.Value)}):
			out = append(out, list)
		case a.Op != specs.OpEqualTo:
			return nil, fmt.Errorf("%s: %+v lets more through than the rules do", name, a)
		}
	}
	return out, nil
}

// covers: the default wants all bits of its mask clear, and each of our rules
// refuses some of those bits.
func covers(a specs.LinuxSeccompArg, rules []seccomp.Rule) bool {
	return a.ValueTwo == 0 && !slices.ContainsFunc(rules, func(r seccomp.Rule) bool {
		return len(r.Args) != 1 || uint(r.Args[0].Index) != a.Index || uint64(r.Args[0].Mask)&^a.Value != 0 || r.Args[0].Mask == 0
	})
}
