package bwrap

// filling are files for bubblewrap that are being filled while the launch is
// written down: the stub alone is a million and a half bytes.
type filling struct {
	of   []Datum
	fds  []int
	err  error
	done chan struct{}
}

func fillSoon(data []Datum) *filling {
	f := &filling{of: data, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		for _, d := range data {
			fd, err := memfd(d.Name, d.Content)
			if err != nil {
				f.err = err
				return
			}
			f.fds = append(f.fds, fd)
		}
	}()
	return f
}

// take waits for the files, which are the caller's from then on: one for each
// datum, in their order, or none.
func (f *filling) take() ([]int, error) {
	<-f.done
	if f.err != nil {
		return nil, f.err
	}
	fds := f.fds
	f.fds = nil
	return fds, nil
}

// close ends what nobody has taken.
func (f *filling) close() {
	if f == nil {
		return
	}
	<-f.done
	closeAll(f.fds)
	f.fds = nil
}
