package cgroup

import "io"

// MakeBare makes a cgroup of version 2 with no controller.
func MakeBare(parent string) (*Tree, string, error) {
	p := &Place{kernel: system{}, parts: []part{{parent: parent, v2: true}}}
	t, err := p.Make(Limits{})
	if err != nil {
		return nil, "", err
	}
	return t, t.parts[0].parent, nil
}

// StartScopeOver asks for a scope over a connection.
func StartScopeOver(c io.ReadWriter, unit string, l Limits, processes []int) error {
	return startScope(newBus(c), unit, l, processes)
}

// HelloMessage is the call that every client of a message bus makes first.
func HelloMessage() []byte {
	m := &marshal{b: []byte{'l', methodCall, 0, 1}}
	m.u32(0)
	m.u32(1000)
	m.array(8, func() {
		m.field(fieldPath, "o", "/org/freedesktop/DBus")
		m.field(fieldInterface, "s", "org.freedesktop.DBus")
		m.field(fieldMember, "s", "Hello")
		m.field(fieldDestination, "s", "org.freedesktop.DBus")
	})
	m.align(8)
	return m.b
}
