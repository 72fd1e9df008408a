"""Serves data.json: `python3 app.py PORT`."""

import http.server
import json
import pathlib
import sys

DATA = pathlib.Path(__file__).with_name("data.json")


def find(name):
    items = json.loads(DATA.read_text())["items"]
    return next((item for item in items if item["name"] == name), None)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        item = find(self.path.strip("/"))
        body = json.dumps(item).encode()
        self.send_response(200 if item else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        pass


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
