"""An agent without a will: what it hears goes to a socket, and it says what comes from there.

usage: acp_puppet.py NAME CODE      NAME of an abstract Unix socket; ends with CODE when the other end is closed
"""

import os
import socket
import sys
import threading

strings = socket.socket(socket.AF_UNIX)
strings.connect(f"\0{sys.argv[1]}")


def hear() -> None:
    while data := os.read(0, 1 << 16):
        strings.sendall(data)
    strings.shutdown(socket.SHUT_WR)


threading.Thread(target=hear, daemon=True).start()
while data := strings.recv(1 << 16):
    while data:
        data = data[os.write(1, data) :]
os._exit(int(sys.argv[2]))
