"""Files on HDFS over HTTP (WebHDFS), without a JVM for each request. As a program, `webhdfs.py
NAMENODE FOLDER PREFIX` writes the files of a folder whose names begin so, one after the other."""

import json
import shutil
import sys
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

# How long an answer may take.
LIMIT_SECONDS = 120

# What listens is on this machine, whatever the environment says of others.
OPENER = build_opener(ProxyHandler({}))


class WebHdfs:
    """The files of the NameNode at `address`, a host with the port that it has for HTTP."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, path: str, what: str, method: str = "GET") -> IO[bytes]:
        url = f"http://{self.address}/webhdfs/v1{quote(path)}?op={what}"
        answer: IO[bytes] = OPENER.open(Request(url, method=method), timeout=LIMIT_SECONDS)
        return answer

    def names(self, folder: str) -> list[str]:
        """What is in a folder; nothing is in one that is not there."""
        try:
            with self.ask(folder, "LISTSTATUS") as answer:
                said: dict[str, Any] = json.load(answer)
        except HTTPError as error:
            if error.code == 404:
                return []
            raise
        return sorted(it["pathSuffix"] for it in said["FileStatuses"]["FileStatus"])

    def open(self, path: str) -> IO[bytes]:
        return self.ask(path, "OPEN")

    def remove(self, path: str) -> None:
        """Removes a file or a folder, if it is there."""
        self.ask(path, "DELETE&recursive=true", "DELETE").close()


if __name__ == "__main__":
    files = WebHdfs(sys.argv[1])
    folder, prefix = sys.argv[2:]
    for name in files.names(folder):
        if name.startswith(prefix):
            with files.open(f"{folder}/{name}") as source:
                shutil.copyfileobj(source, sys.stdout.buffer, 1 << 20)
