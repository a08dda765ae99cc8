"""A client for tickwire's default framing, and so for Telepathy's: a 4-byte big-endian length, then the payload.

Python 3.8 or later, standard library only. Copy the class `Client`; below it is a little program that shows it:

    cargo run --example echo                                  # in another terminal
    python3 examples/clients/client.py 127.0.0.1 7777

It says hello once a second and shows what comes back; stop the server and start it again to see what happens then.
With `--check N` it sends messages of many sizes, checks every byte that comes back, N times on N connections.
"""
import random
import select
import socket
import struct
import sys
import time

BYTES_PER_UPDATE = 256 * 1024  # so that a flood cannot hold up a frame


class Client:
    """Call `update()` once a frame. Nothing blocks (but for looking up a host name) and nothing runs by itself.

    `update()` returns a list of events, each a pair:
        ("connected", None)         then come its messages, in order, and then exactly one
        ("disconnected", reason)    whoever closed
        ("message", payload)        bytes of your own, to keep
        ("failed", reason)          an attempt to connect has come to nothing
    After "disconnected" and "failed" it tries again after `retry_in` seconds, unless `close()` was called.
    """

    def __init__(self, host, port, frame_max=16384, queue_max=1 << 20, retry_min=0.5, retry_max=30.0, timeout=10.0):
        self.host, self.port = host, port
        self.frame_max = frame_max  # the largest payload, both ways
        self.queue_max = queue_max  # how many bytes may wait to be sent
        self.retry_min, self.retry_max = retry_min, retry_max
        self.timeout = timeout  # of an attempt to connect
        self.connected = False
        self.retry_in = None
        self._attempts = 0  # in a row without a message
        self._addresses = []
        self._sock = None
        self._wanted = True
        self._next_try = 0.0
        self._ended = None  # the reason of a close of our own, until update() tells it

    def send(self, payload):
        """Queues a message. False if it is refused, whole: not connected, larger than
        `frame_max`, or too much is waiting already (try again in a later frame, or leave it out)."""
        if not self.connected or len(payload) > self.frame_max:
            return False
        if len(self._out) + 4 + len(payload) > self.queue_max:
            return False
        self._out += struct.pack(">I", len(payload))
        self._out += payload
        return True

    @property
    def queued(self):
        """How many bytes wait to be sent."""
        return len(self._out) if self._sock else 0

    def flush(self):
        """Sends what the socket takes now. `update()` does it too: call it after the last `send()` of a frame."""
        try:
            while self.connected and self._out:
                del self._out[: self._sock.send(self._out)]
        except (BlockingIOError, InterruptedError):
            pass  # the rest in the next frame
        except OSError as error:
            self._send_error = error  # told when all that has arrived is read

    def close(self):
        """Ends it, in order and for good. What the socket does not take at once is lost."""
        self._wanted = False
        if self._sock is None:
            return
        self.flush()
        if self.connected:
            self._ended = "closed by us"
        self._drop()

    def update(self):
        events = []
        if self._ended:
            events.append(("disconnected", self._ended))
            self._ended = None
        if self._sock is None:
            if self._wanted and time.monotonic() >= self._next_try:
                self._begin(events)
        elif not self.connected:
            self._finish(events)
        if self.connected:
            self.flush()
            self._receive(events)
        return events

    def _begin(self, events):
        self._out, self._in, self._send_error = bytearray(), bytearray(), None
        self._deadline = time.monotonic() + self.timeout
        self.retry_in = None
        try:
            if not self._addresses:
                self._addresses = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            family, kind, protocol, _, address = self._addresses.pop(0)
            self._sock = socket.socket(family, kind, protocol)
            self._sock.setblocking(False)
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sock.connect(address)
        except (BlockingIOError, InterruptedError):
            pass  # it is on its way
        except OSError as error:
            self._lose("failed", _reason(error), events)

    def _finish(self, events):
        _, writable, failed = select.select([], [self._sock], [self._sock], 0)
        if writable or failed:
            error = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                self._lose("failed", _reason(OSError(error, "")), events)
            else:
                self.connected = True
                events.append(("connected", None))
        elif time.monotonic() >= self._deadline:
            self._lose("failed", "timed out", events)

    def _receive(self, events):
        budget = BYTES_PER_UPDATE
        while budget > 0:
            try:
                part = self._sock.recv(65536)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                return self._lose("disconnected", _reason(error), events)
            if not part and self._send_error:  # which reading does not see again
                return self._lose("disconnected", _reason(self._send_error), events)
            if not part:
                cut_off = "the connection was cut off within a message"
                reason = cut_off if self._in else "the server closed the connection"
                return self._lose("disconnected", reason, events)
            budget -= len(part)
            self._in += part
            if not self._take_frames(events):
                return

    def _take_frames(self, events):
        at = 0
        while len(self._in) - at >= 4:
            (length,) = struct.unpack_from(">I", self._in, at)
            if length > self.frame_max:
                # Nothing was allocated for it, and what follows has no meaning.
                reason = "frame too large: %d bytes, limit %d" % (length, self.frame_max)
                self._lose("disconnected", reason, events)
                return False
            if len(self._in) - at - 4 < length:
                break
            events.append(("message", bytes(self._in[at + 4 : at + 4 + length])))
            self._attempts = 0  # a server that works: the next wait starts small again
            at += 4 + length
        del self._in[:at]
        return True

    def _lose(self, event, reason, events):
        """Ends a connection or an attempt; the next one comes after a while, a longer one each time. The chance in it keeps a
        thousand clients from coming back in the same moment."""
        self._drop()
        self.retry_in = min(self.retry_max, self.retry_min * 2 ** min(self._attempts, 20)) * random.uniform(0.5, 1.0)
        self._attempts += 1
        self._next_try = time.monotonic() + self.retry_in
        events.append((event, reason))

    def _drop(self):
        if self._sock:
            self._sock.close()
        self._sock, self.connected = None, False


def _reason(error):
    if isinstance(error, (ConnectionResetError, BrokenPipeError)):
        return "the connection was reset"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return str(error)


# From here on: the program that shows it.


def say(text):
    print(text, flush=True)


def tell(client, event, detail):
    if event == "connected":
        say("connected")
    elif event in ("disconnected", "failed"):
        say({"disconnected": "disconnected: ", "failed": "cannot connect: "}[event] + detail)
        if client.retry_in is not None:
            say("trying again in %.2f s" % client.retry_in)


def demo(host, port):
    client, number, next_hello = Client(host, port), 0, 0.0
    say("connecting to %s:%d; Ctrl-C ends it" % (host, port))
    try:
        while True:
            for event, detail in client.update():
                tell(client, event, detail)
                if event == "message":
                    say("got:  " + detail.decode("utf-8", "replace"))
            if client.connected and time.monotonic() >= next_hello:
                next_hello = time.monotonic() + 1
                number += 1
                text = "hello %d" % number
                if client.send(text.encode()):
                    say("sent: " + text)
            client.flush()
            time.sleep(1 / 60)  # a game would do its frame's work here
    except KeyboardInterrupt:
        client.close()
        for event, detail in client.update():
            tell(client, event, detail)


def messages(frame_max):
    """What `--check` sends: every size that is special, small ones in a row, and more than all the buffers on the way hold. A
    message's first bytes are its number, so that a wrong order shows too."""
    pattern = bytes((i * 31 + i // 251) & 255 for i in range(frame_max))
    for number, size in enumerate([0, 1, 100, 1000, frame_max] + [i % 50 for i in range(500)] + [frame_max] * 600):
        yield struct.pack(">I", number)[:size] + pattern[4:size]


def check(host, port, rounds):
    client = Client(host, port, retry_min=0.02, retry_max=0.2)
    assert client.send(b"early") is False, "not connected yet"
    done = 0
    while True:
        for event, detail in client.update():
            tell(client, event, detail)
            if event == "connected":
                assert client.send(bytes(client.frame_max + 1)) is False, "larger than the limit"
                unsent, awaited = messages(client.frame_max), messages(client.frame_max)
                wanted, waiting, is_late, count, size = next(awaited), next(unsent), False, 0, 0
            elif event == "message":
                if detail != wanted:
                    sys.exit("error: message %d is not what was sent" % count)
                count, size, wanted = count + 1, size + len(detail), next(awaited, None)
                if wanted is None:
                    done += 1
                    say("round %d ok: %d messages, %d bytes" % (done, count, size))
                    if done == rounds:
                        client.close()
            elif event == "disconnected" and detail == "closed by us":
                return
        while client.connected and waiting is not None and client.send(waiting):
            waiting = next(unsent, None)
            if client.queued >= 65536:
                client.flush()
        if client.connected and waiting is not None and not is_late:
            is_late = True
            say("send queue full: the rest follows")
        client.flush()
        time.sleep(0.001)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 5) or sys.argv[3:4] not in ([], ["--check"]):
        sys.exit("usage: client.py HOST PORT [--check ROUNDS]")
    if len(sys.argv) == 5:
        check(sys.argv[1], int(sys.argv[2]), int(sys.argv[4]))
    else:
        demo(sys.argv[1], int(sys.argv[2]))
