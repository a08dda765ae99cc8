"""Sends rounds of messages to an echo server and waits for each round to come back.

python3 docs/ping.py PORT ROUNDS MESSAGES_A_ROUND
"""
import socket
import struct
import sys

port, rounds, messages = map(int, sys.argv[1:4])
client = socket.create_connection(("127.0.0.1", port))
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
batch = (struct.pack(">I", 100) + bytes(100)) * messages
for _ in range(rounds):
    client.sendall(batch)
    missing = len(batch)
    while missing:
        part = client.recv(missing)
        if not part:
            sys.exit("the server closed the connection")
        missing -= len(part)
