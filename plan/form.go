package plan

// Form is the canonical form of a plan while it is being written, beside what
// else a launch has to do.
type Form struct {
	b    []byte
	err  error
	done chan struct{}
}

// WriteForm begins to write the canonical form of a plan that nobody changes any
// more.
func WriteForm(p *Plan) *Form {
	f := &Form{done: make(chan struct{})}
	go func() {
		defer close(f.done)
		f.b, f.err = p.Canonical()
	}()
	return f
}

// PinForm is [Record.Pin] for a plan whose form is being written.
func (r *Record) PinForm(f *Form) (string, error) {
	<-f.done
	if f.err != nil {
		return "", f.err
	}
	return r.pin(f.b)
}
