# What signals do to a connect that waits: run inside, and without a boundary.
import ctypes, errno, os, signal, socket, struct, sys, threading, time


class Heard(Exception):
    pass


def hear(*_):
    raise Heard


def full(family=socket.AF_UNIX):
    """A listener of one's own that has no room, and who fills it."""
    listener = socket.socket(family)
    listener.bind("full-%d" % os.getpid() if family == socket.AF_UNIX else ("127.0.0.1", 0))
    listener.listen(0)
    fill = []
    while True:
        s = socket.socket(family)
        s.settimeout(0.3)
        try:
            s.connect(listener.getsockname())
        except OSError:
            s.close()
            return listener, fill
        fill.append(s)


def outcome(listener, patience=0):
    s = socket.socket(listener.family)
    if patience:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(patience), int(patience % 1 * 1e6)))
    try:
        s.connect(listener.getsockname())
        return "connected", s
    except Heard:
        return "heard", s
    except OSError as e:
        return errno.errorcode[e.errno], s


def after(seconds, call, *args):
    threading.Thread(target=lambda: (time.sleep(seconds), call(*args)), daemon=True).start()


def alarm():
    signal.signal(signal.SIGALRM, hear)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    began = time.monotonic()
    return outcome(full_unix)[0] + (" too late" if time.monotonic() > began + 2 else "")


def threads():
    signal.signal(signal.SIGINT, hear)
    after(0.3, os.kill, os.getpid(), signal.SIGINT)
    return outcome(full_unix)[0]


def bounded():
    signal.signal(signal.SIGALRM, hear)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    return outcome(full_unix, 3)[0]


def blocked():
    signal.signal(signal.SIGALRM, hear)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    return outcome(full_unix, 0.9)[0]


def ignored():
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    return outcome(full_unix, 0.9)[0]


def child_ends(patience=0.9):
    if os.fork() == 0:
        time.sleep(0.2)
        os._exit(0)
    return outcome(full_unix, patience)[0]


def child_ends_with_threads():
    after(5, int)
    return child_ends()


def child_heard():
    signal.signal(signal.SIGCHLD, hear)
    return child_ends(3)


def other(work):
    """A process that waits in a connect, and the time to do it in."""
    pid = os.fork()
    if pid == 0:
        work()
    time.sleep(0.4)
    return pid


def ends(pid, flags=0):
    for _ in range(300):
        got, status = os.waitpid(pid, os.WNOHANG | flags)
        if got:
            if os.WIFSTOPPED(status):
                return "stopped"
            return "signal %d" % os.WTERMSIG(status) if os.WIFSIGNALED(status) else "exit %d" % os.WEXITSTATUS(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "too late"


def waits(handler=None):
    def work():
        if handler:
            signal.signal(signal.SIGUSR1, handler)
            signal.siginterrupt(signal.SIGUSR1, False)
        os._exit(0 if outcome(full_unix)[0] == "connected" else 1)
    return work


def terminated():
    pid = other(waits())
    os.kill(pid, signal.SIGTERM)
    return ends(pid)


def terminated_later():
    pid = other(waits(lambda *_: None))
    os.kill(pid, signal.SIGUSR1)
    os.kill(pid, signal.SIGTERM)
    return ends(pid)


def dumped():
    pid = other(waits())
    os.kill(pid, signal.SIGQUIT)
    return ends(pid)


def make_room():
    for _ in range(len(filling) + 1):
        full_unix.accept()[0].close()


def restarted():
    pid = other(waits(lambda *_: None))
    os.kill(pid, signal.SIGUSR1)
    time.sleep(0.4)
    make_room()
    return ends(pid)


def only_one():
    """All threads but the one that waits block the signal."""
    signal.signal(signal.SIGUSR1, lambda *_: None)
    signal.siginterrupt(signal.SIGUSR1, False)
    results, s = [], socket.socket(socket.AF_UNIX)
    address = struct.pack("H", socket.AF_UNIX) + full_unix.getsockname().encode()

    def waits():  # without Python's own second try
        libc = ctypes.CDLL(None, use_errno=True)
        failed = libc.connect(s.fileno(), address, len(address))
        results.append(errno.errorcode[ctypes.get_errno()] if failed else "connected")

    thread = threading.Thread(target=waits, daemon=True)
    thread.start()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(0.5)
    make_room()
    thread.join(5)
    return ", ".join(results)


def stopped(thread=None):
    work = waits()
    pid = other(lambda: (thread and thread(), work()))
    os.setpgid(pid, pid)  # in an orphaned group SIGTSTP does nothing
    os.kill(pid, signal.SIGTSTP)
    first = ends(pid, os.WUNTRACED)
    os.kill(pid, signal.SIGCONT)
    time.sleep(0.2)
    make_room()
    return first + ", " + ends(pid)


def stopped_with_threads():
    return stopped(lambda: after(9, int))


def not_connected():
    signal.signal(signal.SIGALRM, hear)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    heard, s = outcome(full_unix)
    full_unix.accept()
    time.sleep(0.3)
    try:
        s.getpeername()
    except OSError as e:
        return heard + ", " + errno.errorcode[e.errno]
    return heard + ", connected"


def tcp_goes_on():
    listener, fill = full(socket.AF_INET)
    signal.signal(signal.SIGALRM, hear)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    heard, s = outcome(listener)
    s.setblocking(False)
    again = errno.errorcode[s.connect_ex(listener.getsockname())]
    for _ in range(len(fill) + 1):
        listener.accept()
    s.setblocking(True)
    s.connect(listener.getsockname())
    return "%s, %s, %s" % (heard, again, s.getpeername() == listener.getsockname())


full_unix, filling = full()
print("%s: %s" % (sys.argv[1], globals()[sys.argv[1]]()))
