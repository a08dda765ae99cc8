"""A client in another language: plain sockets and a 4-byte big-endian length. Checks every byte of an echo server.

python3 tests/echo_client.py PORT
"""
import socket
import struct
import sys
import threading

PORT = int(sys.argv[1])


def frame(payload):
    return struct.pack(">I", len(payload)) + payload


def connect():
    client = socket.create_connection(("127.0.0.1", PORT))
    client.settimeout(20)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def expect(client, wanted):
    got = b""
    while len(got) < len(wanted):
        part = client.recv(len(wanted) - len(got))
        assert part, f"the connection ended {len(wanted) - len(got)} bytes early"
        got += part
    assert got == wanted, "other bytes came back"


client = connect()
for size in (0, 1, 100, 16384):
    message = frame(bytes(i * 7 & 255 for i in range(size)))
    client.sendall(message)
    expect(client, message)

for byte in frame(bytes(range(100))):
    client.send(bytes([byte]))
expect(client, frame(bytes(range(100))))

thousand = b"".join(frame(bytes([i & 255]) * (i % 101)) for i in range(1000))
client.sendall(thousand)
expect(client, thousand)

# As fast as the socket takes them, while we read.
largest = frame(bytes(range(256)) * 64)
writer = threading.Thread(target=lambda: [client.sendall(largest) for _ in range(500)])
writer.start()
for _ in range(500):
    expect(client, largest)
writer.join()

closing = connect()
hundred = b"".join(frame(bytes([i]) * 100) for i in range(100))
closing.sendall(hundred)
closing.shutdown(socket.SHUT_WR)
expect(closing, hundred)
assert closing.recv(1) == b"", "an end was due"

greedy = connect()
greedy.sendall(struct.pack(">I", 16385))
try:
    assert greedy.recv(1) == b"", "nothing was due"
except ConnectionResetError:
    pass

client.sendall(frame(b"still here"))
expect(client, frame(b"still here"))
