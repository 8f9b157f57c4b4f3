"""Run a command under a terminal of its own and talk with it.

    talk.py SECONDS COMMAND... <SCRIPT

Lines of SCRIPT: "want TEXT" waits until TEXT has come since the last wait,
"send TEXT" types it, "size ROWS COLUMNS" is the terminal's; TEXT has Python's
escapes. "end" waits for the command's end, whose status is ours. What the
command writes goes to standard output as it comes. 1 when SECONDS are over.
"""
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time


def unescape(text):
    return text.encode().decode("unicode_escape").encode("latin-1")


class Talk:
    def __init__(self, seconds, argv):
        self.end = time.monotonic() + seconds
        self.pid, self.fd = pty.fork()
        self.seen = b""
        if self.pid == 0:
            os.execvp(argv[0], argv)

    def stop(self, why):
        os.kill(self.pid, signal.SIGKILL)
        sys.exit("talk.py: " + why)

    def read(self):
        """More output; False at its end."""
        left = self.end - time.monotonic()
        if left <= 0 or not select.select([self.fd], [], [], left)[0]:
            self.stop("no more time; last came %r" % self.seen[-500:])
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the other end is closed
            return False
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        self.seen += data
        return bool(data)

    def want(self, text):
        while text not in self.seen:
            if not self.read():
                self.stop("it ended without %r" % text)
        self.seen = self.seen[self.seen.index(text) + len(text):]

    def run(self, script):
        for line in script:
            verb, _, rest = line.rstrip("\n").partition(" ")
            if verb == "want":
                self.want(unescape(rest))
            elif verb == "send":
                os.write(self.fd, unescape(rest))
            elif verb == "size":
                rows, columns = map(int, rest.split())
                fcntl.ioctl(self.fd, termios.TIOCSWINSZ,
                            struct.pack("HHHH", rows, columns, 0, 0))
            elif verb == "end":
                while self.read():
                    pass
                status = os.waitpid(self.pid, 0)[1]
                return os.waitstatus_to_exitcode(status)
            else:
                self.stop("what is %r?" % verb)
        self.stop("the script has no end")


code = Talk(float(sys.argv[1]), sys.argv[2:]).run(sys.stdin)
sys.exit(code if code >= 0 else 128 - code)
