# Ways to connect, and to send to an address, one line each: what came of it.
# Arguments: the name, a port that answers "greetings", one that isn't allowed.
import ctypes, errno, os, select, socket, struct, sys, threading, time

name, port, other = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
address = socket.gethostbyname(name)
libc = ctypes.CDLL(None, use_errno=True)


def stream(family=socket.AF_INET):
    return socket.socket(family, socket.SOCK_STREAM)


def heard(s):
    s.settimeout(10)
    text = b""
    while piece := s.recv(99):
        text += piece
    return text.decode().strip()


def plain(s=None, to=None):
    s = s or stream()
    s.connect(to or (name, port))
    return heard(s)


def non_blocking():
    s = stream()
    s.setblocking(False)
    began = s.connect_ex((address, port))
    select.select([], [s], [], 10)
    error = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    s.setblocking(True)
    return f"{errno.errorcode.get(began, began)} {error} {heard(s)}"


def with_timeout():
    s = stream()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 5, 0))
    return plain(s)


def bound():
    s = stream()
    s.bind(("127.0.0.1", 0))
    return plain(s)


def bound_to_all():
    s = stream()
    s.bind(("", 0))
    before = s.getsockname()[1]
    s.connect((name, port))
    return f"{before == s.getsockname()[1]} {heard(s)}"


def twice():
    s = stream()
    s.connect((name, port))
    return errno.errorcode[s.connect_ex((name, port))]


def mapped():
    return plain(stream(socket.AF_INET6), ("::ffff:" + address, port))


def mapped_bound():
    s = stream(socket.AF_INET6)
    s.bind(("::", 0))
    return plain(s, ("::ffff:" + address, port))


def happy_eyeballs():  # what a client does that tries all it was told of
    return heard(socket.create_connection((name, port), 10))


def fast_open_connect():
    s = stream()
    s.setsockopt(socket.IPPROTO_TCP, 30, 1)  # TCP_FASTOPEN_CONNECT
    return plain(s)


def threads():
    said = []
    all = [threading.Thread(target=lambda: said.append(plain())) for _ in range(20)]
    [t.start() for t in all]
    [t.join() for t in all]
    return said.count("greetings")


def in_child(*prepare):
    r, w = os.pipe()
    if os.fork() == 0:
        if os.fork() == 0:  # a child of a child, whose parent is gone
            [p() for p in prepare]
            os.write(w, plain().encode())
        os._exit(0)
    os.close(w)
    os.wait()
    return os.read(r, 99).decode()


def undumpable():
    return in_child(lambda: libc.prctl(4, 0, 0, 0, 0))  # PR_SET_DUMPABLE


def exits_in_mid_call():
    for i in range(20):
        if os.fork() == 0:
            threading.Thread(target=lambda: [plain() for _ in range(99)], daemon=True).start()
            time.sleep(0.001 * (i % 5))
            os._exit(0)
        os.wait()
    return plain()


def fast_open():
    return stream().sendto(b"x", socket.MSG_FASTOPEN, (address, port))


def send_to():
    return stream().sendto(b"x", (address, port))


def send_message():
    return stream().sendmsg([b"x"], [], 0, (address, port))


def datagram(family=socket.AF_INET, to=None, protocol=0):
    return socket.socket(family, socket.SOCK_DGRAM, protocol).sendto(b"\x08\0\xf7\xff\0\0\0\0", to or (address, 443))


def datagram_connected():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect((address, 443))
    return s.send(b"x")


def datagram_mapped():
    return datagram(socket.AF_INET6, ("::ffff:" + address, 443))


def echo_request():
    return datagram(protocol=socket.IPPROTO_ICMP, to=(address, 0))


def raw():
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()


def another_port():
    return plain(to=(name, other))


def far():
    return plain(to=("192.0.2.1", port))


for f in (
    plain, non_blocking, with_timeout, bound, bound_to_all, twice, mapped, mapped_bound, happy_eyeballs,
    fast_open_connect, threads, in_child, undumpable, exits_in_mid_call, fast_open, send_to, send_message,
    datagram, datagram_connected, datagram_mapped, echo_request, raw, another_port, far,
):
    began = time.monotonic()
    try:
        said = f()
    except OSError as e:
        said = errno.errorcode.get(e.errno, repr(e))
    print(f.__name__.replace("_", " ") + ":", said, "late" if time.monotonic() - began > 5 else "", flush=True)
