"""The settings of a local server, in `neo4j.conf`, and the ports it gets."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from tracelens_graph.errors import ServerError

HOST = "127.0.0.1"
BOLT_PORT, HTTP_PORT = 7687, 7474
"""Ports that clients expect Neo4j at."""

_POLICY = {
    "default-src": "'self'", "script-src": "'self'", "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data: blob:", "font-src": "'self' data:", "worker-src": "'self' blob:",
    "connect-src": "'self' ws://127.0.0.1:* ws://localhost:* http://127.0.0.1:* http://localhost:*",
    "object-src": "'none'", "frame-src": "'none'", "frame-ancestors": "'none'", "base-uri": "'none'",
}  # fmt: skip
"""Where pages of the server may load from and connect to: nowhere but this machine. By itself Neo4j Browser loads
fonts, and scripts for analytics and feedback, from other hosts, and reports crashes, also where telemetry is off. It is
this policy, which the user's own browser keeps, that stops it."""

BROWSER: dict[str, str] = {
    "browser.remote_content_hostname_whitelist": HOST,
    "client.allow_telemetry": "false",
    "dbms.security.http_static_content_security_policy_header": "; ".join(map(" ".join, _POLICY.items())),
}
"""Settings of Neo4j Browser."""

SETTINGS: dict[str, str] = {
    "server.default_listen_address": HOST,
    "server.default_advertised_address": HOST,
    "dbms.security.auth_enabled": "true",
    "dbms.usage_report.enabled": "false",
    "db.tx_log.preallocate": "false",
    "db.tx_log.rotation.retention_policy": "keep_none",
    "internal.dbms.bolt.netty_server_shutdown_quiet_period": "0",
    **BROWSER,
}
"""Settings of every server; ports and page cache are added."""

_SIZE = re.compile(r"[1-9]\d{0,6}[kmg]", re.IGNORECASE)


@dataclass(frozen=True)
class Memory:
    """Sizes such as 512m or 2g: of the Java heap, and of the cache for the database's files.

    Raises:
        ServerError: one is no such size.
    """

    heap: str = "1g"
    page_cache: str = "512m"

    def __post_init__(self) -> None:
        for size in (self.heap, self.page_cache):
            if not _SIZE.fullmatch(size):
                raise ServerError(f"{size!r} is no size of memory such as 512m or 2g")


def free_ports(bolt: int, http: int) -> tuple[int, int]:
    """The ports named; for 0 the usual ones, or else free ones.

    Raises:
        ServerError: a port that is named is taken.
    """
    held: list[socket.socket] = []

    def held_port(named: int, usual: int) -> int:
        for port in (named,) if named else (usual, 0):
            candidate = socket.socket()
            held.append(candidate)
            candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                candidate.bind((HOST, port))
                return int(candidate.getsockname()[1])
            except OSError:
                continue
        raise ServerError(f"port {named} is taken: end what listens there, or name another port")

    try:
        return held_port(bolt, BOLT_PORT), held_port(http, HTTP_PORT)
    finally:
        for one in held:
            one.close()


def configuration(bolt_port: int, http_port: int, page_cache: str, more: Mapping[str, str]) -> str:
    """The text of `neo4j.conf`; of two values for one setting the one of `more` counts."""
    own = {"server.memory.pagecache.size": page_cache}
    for connector, port in (("bolt", bolt_port), ("http", http_port)):
        own |= {f"server.{connector}.{side}_address": f":{port}" for side in ("listen", "advertised")}
    return "".join(f"{name}={value}\n" for name, value in {**SETTINGS, **own, **more}.items())
