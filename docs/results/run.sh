#!/bin/sh
# Make the files in this directory again: docs/results/run.sh [NAME ...]
# Each holds a command and what it printed. The whole takes one to two hours on two cores.
set -eu
cd "$(dirname "$0")/../.."
export COLUMNS=170

run() {
    name=$1
    shift
    case " $chosen " in *" $name "* | "  ") ;; *) return 0 ;; esac
    {
        echo "\$ $*"
        "$@" 2>&1
    } >"docs/results/$name.txt"
}

episub() { python -m episub_router "$@"; }

chosen="$*"
run event-queue python tests/benchmarks/event_queue.py
run simsub-1 episub sim run simsub-1 --seeds 8
run simsub-2 episub sim run simsub-2 --seeds 8
run simsub-3 episub sim run simsub-3 --seeds 8
run simsub-4 episub sim run simsub-4 --seeds 8
run simsub-5 episub sim run simsub-5 --seeds 8
run simsub-6 episub sim run simsub-6 --seeds 8
run headline episub sim run headline
run multi-source episub sim run multi-source
run churn episub sim run churn
run partition-heal episub sim run partition-heal
run lossy episub sim run lossy
run nat episub sim run nat
run routers episub sim run routers
run plumtree-redundancy episub sim run plumtree-redundancy
run hyparview-overlay episub sim run hyparview-overlay
run hyparview-failures episub sim run hyparview-failures --processes 2
run sizing episub sim run sizing
run three-sites python -m tests.benchmarks.three_sites
run scale python tests/benchmarks/sim_scale.py
