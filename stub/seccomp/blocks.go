package seccomp

// A Block is a set of 32-bit values: those whose bits under Mask are Value.
type Block struct {
	Mask, Value uint32
}

// Blocks are the values that an Arg matches, as disjoint blocks. libseccomp
// can compare a masked argument for equality and nothing else, so "none of
// these" has to become a list of equalities: as a route table does it, the
// widest blocks that hold no excluded value.
func (a Arg) Blocks() []Block {
	mask := a.Mask
	if mask == 0 {
		mask = ^uint32(0)
	}
	if a.NotIn != nil {
		return complement(nil, mask, Block{}, a.NotIn)
	}
	list := make([]Block, 0, len(a.In))
	for _, v := range a.In {
		list = append(list, Block{Mask: mask, Value: v & mask})
	}
	return list
}

// complement appends what of block holds none of the excluded values: all of
// it, or what its halves along the highest bit left of mask do.
func complement(list []Block, mask uint32, b Block, excluded []uint32) []Block {
	var inside []uint32
	for _, v := range excluded {
		if v&b.Mask == b.Value {
			inside = append(inside, v)
		}
	}
	if len(inside) == 0 {
		return append(list, b)
	}
	bit := highest(mask &^ b.Mask)
	if bit == 0 {
		return list
	}
	list = complement(list, mask, Block{b.Mask | bit, b.Value}, inside)
	return complement(list, mask, Block{b.Mask | bit, b.Value | bit}, inside)
}

// highest is the highest bit set, alone.
func highest(v uint32) uint32 {
	for v&(v-1) != 0 {
		v &= v - 1
	}
	return v
}

// Conditions are the alternatives of a rule: it matches where all blocks of
// one of them do. There is one block for each of its arguments, in order.
func (r Rule) Conditions() [][]Block {
	list := [][]Block{nil}
	for _, a := range r.Args {
		var next [][]Block
		for _, head := range list {
			for _, b := range a.Blocks() {
				next = append(next, append(head[:len(head):len(head)], b))
			}
		}
		list = next
	}
	return list
}

// Matches says whether the rule refuses a call with these arguments.
func (r Rule) Matches(args [6]uint64) bool {
	for _, a := range r.Args {
		if !a.matches(uint32(args[a.Index])) {
			return false
		}
	}
	return true
}

func (a Arg) matches(v uint32) bool {
	if a.Mask != 0 {
		v &= a.Mask
	}
	for _, n := range a.NotIn {
		if n == v {
			return false
		}
	}
	for _, n := range a.In {
		if n == v {
			return true
		}
	}
	return a.NotIn != nil
}
