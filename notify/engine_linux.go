package notify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The bounds of what a sandbox can make the engine hold. Calls past the first
// wait in the kernel, where they cost the caller alone; one that would have to
// wait longer than a moment and finds no room is answered EAGAIN.
const (
	maxActive  = 64
	maxWaiting = 1024
	// maxBegun bounds the sockets whose caller was interrupted while they
	// were being connected.
	maxBegun = 256
)

// Engine answers the notifications of one sandbox.
type Engine struct {
	o     Options
	fd    int
	file  *os.File
	conn  syscall.RawConn
	sizes sizes
	ours  namespace
	diag  *diag
	// rights are those that the sandbox doesn't have.
	rights rights
	// pins hold the listed sockets open, by index; -1 for one that wasn't
	// there any more.
	pins []int

	ctx     context.Context //nolint:containedctx // its life is the engine's
	cancel  context.CancelFunc
	active  chan struct{}
	waiting chan struct{}
	wg      sync.WaitGroup

	end  sync.Once
	done chan struct{} // closed once nothing runs any more

	mu       sync.Mutex
	hostDiag *diag
	begun    map[uint64]struct{}
}

// New makes an engine. It answers nothing before Run.
func New(o Options) (*Engine, error) {
	e := &Engine{
		o: o, fd: o.Listener, begun: map[uint64]struct{}{}, done: make(chan struct{}),
		active: make(chan struct{}, maxActive), waiting: make(chan struct{}, maxWaiting),
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	if o.Diag >= 0 {
		e.diag = newDiag(o.Diag)
	}
	if err := e.prepare(); err != nil {
		e.cancel()
		if e.file == nil {
			unix.Close(o.Listener)
		}
		e.release()
		return nil, err
	}
	return e, nil
}

func (e *Engine) prepare() (err error) {
	if e.sizes, err = notificationSizes(); err != nil {
		return err
	}
	witness := e.o.Witness
	if witness < 0 {
		witness = e.o.Diag
	}
	if e.ours, err = namespaceOf(witness); err != nil {
		return err
	}
	if e.rights, err = newRights(); err != nil {
		return err
	}
	e.pin()
	if e.o.Witness >= 0 {
		unix.Close(e.o.Witness)
		e.o.Witness = -1
	}
	// Non-blocking, it is watched by the runtime, and no thread waits.
	if err := unix.SetNonblock(e.fd, true); err != nil {
		return fmt.Errorf("cannot watch the filter's listener: %w", err)
	}
	e.file = os.NewFile(uintptr(e.fd), "seccomp listener")
	if e.conn, err = e.file.SyscallConn(); err != nil {
		return fmt.Errorf("cannot watch the filter's listener: %w", err)
	}
	return nil
}

// Run answers until nobody is left to answer, or Close. After an error the
// kernel answers, with ENOSYS.
func (e *Engine) Run() error {
	ended := make(chan error, 1)
	e.wg.Go(func() { e.lead(make([]byte, max(int(e.sizes.request), 80)), ended) })
	err := <-ended
	if err != nil {
		e.Close()
	}
	return err
}

// lead waits for a request, starts who waits for the next one, and answers:
// handing the request over instead would have the caller wait for that.
func (e *Engine) lead(buf []byte, ended chan<- error) {
	for {
		select {
		case e.active <- struct{}{}:
		case <-e.ctx.Done():
			ended <- nil
			return
		}
		r, err := e.next(buf)
		if err == nil {
			e.wg.Go(func() { e.lead(buf, ended) })
			e.serve(r)
			return
		}
		<-e.active
		switch {
		case errors.Is(err, errGone):
		case errors.Is(err, unix.ENOTCONN), e.ctx.Err() != nil:
			ended <- nil
			return
		default:
			ended <- fmt.Errorf("cannot hear of system calls: %w", err)
			return
		}
	}
}

// next waits for a request.
func (e *Engine) next(buf []byte) (r request, err error) {
	rerr := e.conn.Read(func(fd uintptr) bool {
		r, err = receive(int(fd), buf)
		return !errors.Is(err, unix.EAGAIN)
	})
	if rerr != nil {
		return r, rerr
	}
	return r, err
}

// closeWait bounds how long Close waits for calls under way. One that a
// hostile caller has made block can take as long as a service with a full
// backlog likes; it is left behind with its descriptors.
const closeWait = 2 * time.Second

// Close ends the engine. Whoever waits for an answer is told ENOSYS by the
// kernel, so close it once the sandbox is gone.
func (e *Engine) Close() {
	e.end.Do(func() {
		e.cancel()
		_ = e.file.SetReadDeadline(time.Unix(1, 0)) // wakes Run
		go func() {
			e.wg.Wait()
			e.file.Close()
			e.release()
			close(e.done)
		}()
	})
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-e.done:
	case <-timer.C:
	}
}

func (e *Engine) release() {
	for _, fd := range e.pins {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	e.diag.close()
	e.hostDiag.close()
	if e.o.Witness >= 0 {
		unix.Close(e.o.Witness)
	}
}
