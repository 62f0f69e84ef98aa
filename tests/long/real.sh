#!/bin/bash
# The model's shapes, full and one rank of three, on the CPU device: every kept variant on sampled
# blocks.
set -u
"$1/lathe" check --all --real --device cpu
