"""Parses a configuration of Envoy with the message types that Envoy publishes: unknown fields and wrong values fail."""

import sys

import yaml
from envoy.config.bootstrap.v3.bootstrap_pb2 import Bootstrap
from envoy.extensions.filters.http.router.v3 import router_pb2  # noqa: F401 (a type in an Any)
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2  # noqa: F401
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2  # noqa: F401
from google.protobuf import json_format

with open(sys.argv[1], encoding="utf-8") as file:
    bootstrap = json_format.ParseDict(yaml.safe_load(file), Bootstrap())
print(len(bootstrap.static_resources.clusters), "cluster")
