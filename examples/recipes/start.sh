#!/bin/sh
# The command of each replica of a service.
set -eu
fencepost run migrations/orders --wait 10m -- ./migrate
exec ./serve
