package event

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// Level says which events are written.
type Level string

// The levels; the zero value means LevelDenied.
const (
	LevelDenied Level = "denied" // all but allowed flows
	LevelAll    Level = "all"
)

// The defaults of Options. A hostile command can make a denial in well under
// a millisecond; nobody reads a thousand a second, or 64 MiB.
const (
	defaultMaxBytes = 64 << 20
	defaultMaxRate  = 1000
	queueLength     = 1024
)

// Options bound a Writer; zero values mean the defaults.
type Options struct {
	Run      string // put into events that name no run
	Level    Level
	MaxBytes int64 // of the whole output (64 MiB)
	MaxRate  int   // events a second (1,000), with bursts as large
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Writer writes events as JSON lines. Emit hands them to one goroutine over a
// bounded queue, so a reader that has stopped reading costs its caller
// nothing but the events.
type Writer struct {
	opts  Options
	queue chan Event
	done  chan struct{}
	err   error // the goroutine's until done is closed

	mu      sync.Mutex
	closed  bool
	tokens  float64
	last    time.Time
	dropped int64
}

// NewWriter starts a writer on w, which stays the caller's to close after
// [Writer.Close].
func NewWriter(w io.Writer, o Options) *Writer {
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.MaxRate == 0 {
		o.MaxRate = defaultMaxRate
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	ew := &Writer{opts: o, queue: make(chan Event, queueLength), done: make(chan struct{}), tokens: float64(o.MaxRate), last: o.Now()}
	go ew.run(w)
	return ew
}

// Emit queues an event, or counts it as dropped. It doesn't block, and is
// safe after Close.
func (w *Writer) Emit(e Event) {
	if w.opts.Level != LevelAll && e.Action == Allowed {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	if !w.allow() {
		w.dropped++
		return
	}
	if e.Time.IsZero() {
		e.Time = w.opts.Now()
	}
	if e.Run == "" {
		e.Run = w.opts.Run
	}
	select {
	case w.queue <- e:
	default:
		w.dropped++
	}
}

// allow takes a token from the bucket.
func (w *Writer) allow() bool {
	now, rate := w.opts.Now(), float64(w.opts.MaxRate)
	w.tokens = min(rate, w.tokens+now.Sub(w.last).Seconds()*rate)
	w.last = now
	if w.tokens < 1 {
		return false
	}
	w.tokens--
	return true
}

// Dropped is how many events were not written so far.
func (w *Writer) Dropped() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}

// Close writes what is queued and, where events were dropped, a last one that
// counts them. It reports the first error of writing. A destination that
// blocks blocks Close too; [Writer.CloseTimeout] bounds that.
func (w *Writer) Close() error {
	w.shut()
	<-w.done
	return w.err
}

// CloseTimeout is Close for a destination that may have stopped reading.
func (w *Writer) CloseTimeout(d time.Duration) error {
	w.shut()
	select {
	case <-w.done:
		return w.err
	case <-time.After(d):
		return fmt.Errorf("cannot write events: nobody read them for %v", d)
	}
}

func (w *Writer) shut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		close(w.queue)
	}
}

// run writes until the queue is closed. After an error, or at the bound, it
// only counts.
func (w *Writer) run(out io.Writer) {
	defer close(w.done)
	var written int64
	for e := range w.queue {
		line, err := Line(e)
		if err == nil && w.err == nil && written+int64(len(line)) > w.opts.MaxBytes {
			w.drop()
			continue
		}
		if w.err == nil && err == nil {
			var n int
			n, err = out.Write(line)
			written += int64(n)
		}
		if err != nil || w.err != nil {
			w.drop()
		}
		if err != nil && w.err == nil {
			w.err = fmt.Errorf("cannot write events: %w", err)
		}
	}
	w.finish(out)
}

func (w *Writer) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropped++
}

// finish reports the dropped ones. It may exceed MaxBytes by its one line.
func (w *Writer) finish(out io.Writer) {
	n := w.Dropped()
	if n == 0 || w.err != nil {
		return
	}
	line, err := Line(Event{Time: w.opts.Now(), Run: w.opts.Run, Kind: Limit, Action: Dropped, Reason: "events_dropped", Count: n})
	if err == nil {
		_, err = out.Write(line)
	}
	if err != nil {
		w.err = fmt.Errorf("cannot write events: %w", err)
	}
}

// Line is one event as a JSON line. Times are UTC, so that lines of different
// machines compare.
func Line(e Event) ([]byte, error) {
	e.Time = e.Time.UTC()
	line, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("cannot encode an event: %w", err)
	}
	return append(line, '\n'), nil
}

// Fan gives events to several sinks; nil ones are left out.
func Fan(sinks ...Sink) Sink {
	var f fan
	for _, s := range sinks {
		if s != nil {
			f = append(f, s)
		}
	}
	return f
}

type fan []Sink

// Emit passes an event to each.
func (f fan) Emit(e Event) {
	for _, s := range f {
		s.Emit(e)
	}
}
