"""Run a command in a terminal, and print what the terminal was sent.

    terminal.py COLUMNS COMMAND...
    terminal.py COLUMNS --press WHEN DIR COMMAND...   press Ctrl-C when it is
        so in DIR (resume.py says what there is)
    terminal.py COLUMNS --leave WHEN DIR COMMAND...   close the terminal then

Escapes are printed as ESC; a carriage return begins a line, so that each
state of a bar is one. Exits with the status of the command.
"""
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import threading
import time

import resume


def press(fd, when, out):
    while not resume.reached(when, out):
        time.sleep(0.0005)
    os.write(fd, b"\x03")


def output(fd, leave):
    """All that is sent, or what is until 'leave'."""
    sent, piece = b"", b"."
    while piece and not (leave and resume.reached(*leave)):
        if leave and not select.select([fd], [], [], 0.001)[0]:
            continue
        try:
            piece = os.read(fd, 65536)
        except OSError:  # Linux: the other side is closed
            piece = b""
        sent += piece
    while leave and not resume.reached(*leave):
        time.sleep(0.0005)  # it writes elsewhere
    if leave:
        os.close(fd)
    return sent


def main(columns, *command):
    when = {}
    if command[0].startswith("--"):
        when = {command[0]: command[1:3]}
        command = command[3:]
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(2, termios.TIOCSWINSZ,
                    struct.pack("HHHH", 24, int(columns), 0, 0))
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.execvp(command[0], command)
    if "--press" in when:
        threading.Thread(target=press, args=(fd, *when["--press"]),
                         daemon=True).start()
    sent = output(fd, when.get("--leave"))
    text = sent.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    sys.stdout.write(text.decode("utf-8", "replace").replace("\x1b", "ESC"))
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return 128 - status if status < 0 else status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
