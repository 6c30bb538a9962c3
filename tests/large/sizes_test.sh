#!/bin/sh
# The large cases of the given sizes_test.
exec "$1" "[large]"
