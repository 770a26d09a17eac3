#!/bin/sh
# The command of a service that runs on each machine and is restarted whenever it ends.
exec fencepost run leader/scheduler --ttl 10s --wait 1h -- ./scheduler
