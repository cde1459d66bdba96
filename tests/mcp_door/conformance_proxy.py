"""The real `vade mcp --http` behind a proxy that adds its token, for a suite that cannot: prints the address.

Nothing else is changed. What a client says of the proxy's own address (`Host`, `Origin`) is said of the
server's; whatever else it says there reaches the server as it is, and is the server's to refuse.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


class Proxy(BaseHTTPRequestHandler):
    """One request, handed on; the answer comes back piece by piece, as streams of events need it."""

    server_netloc = token = ""
    port = 0
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Nobody asked."""

    def _hand_on(self) -> None:
        own = f"127.0.0.1:{self.port}"
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        upstream = http.client.HTTPConnection(self.server_netloc, timeout=120)
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in _HOP:
                upstream.putheader(name, _renamed(value, own, self.server_netloc))
        upstream.putheader("authorization", f"Bearer {self.token}")
        upstream.putheader("content-length", str(len(body)))
        upstream.endheaders(body)
        answer = upstream.getresponse()
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        while piece := answer.read1(65_536):
            self.wfile.write(piece)
            self.wfile.flush()

    do_GET = do_POST = do_DELETE = do_PUT = do_OPTIONS = do_HEAD = _hand_on


def _renamed(value: str, own: str, netloc: str) -> str:
    """The proxy's own address, as the server's; `localhost` too, which the suite calls it by."""
    local = own.replace("127.0.0.1", "localhost")
    for each in (own, local):
        if value in (each, f"http://{each}"):
            return value.replace(each, netloc)
    return value


def main(vade: str, home: str) -> None:
    """Start the server and the proxy, and stay."""
    words = [vade, "mcp", "--http", "--port", "0", "--json", "--home", home]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        output = ""
        while not output.rstrip().endswith("}"):
            output += process.stdout.readline()
        url = urlsplit(json.loads(output)["url"])
        Proxy.server_netloc, Proxy.token = url.netloc, (Path(home) / "mcp-token").read_text("utf-8").strip()
        proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
        proxy.daemon_threads = True
        Proxy.port = proxy.server_port
        print(f"http://127.0.0.1:{Proxy.port}{url.path}", flush=True)
        try:
            proxy.serve_forever()
        finally:
            process.terminate()


if __name__ == "__main__":
    main(*sys.argv[1:3])
