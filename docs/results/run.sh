#!/bin/sh
# Make the files in this directory again: [SEEDS=8] [PROCESSES=1] [COMPILED=DIR] docs/results/run.sh [NAME ...]
# With COMPILED the simulator is the one that `python hatch_build.py DIR` made (docs/simulator.md).
# Each holds a command and what it printed. The whole takes three to four hours on two cores, and by
# estimate three more for the rows of several sources (`headline-five` to `lossy-trees`);
# `pipeline` needs the extra `spark`, 20 GB of disk and the machine to itself, `stream` and `scale` the
# latter.
set -eu
cd "$(dirname "$0")/../.."
export COLUMNS=170 PYTHONPATH="${COMPILED:+$COMPILED:}$PWD"

run() {
    name=$1
    shift
    case " $chosen " in *" $name "* | "  ") ;; *) return 0 ;; esac
    {
        echo "\$ $*"
        "$@" 2>&1
    } >"docs/results/$name.txt"
}

episub() { python -P -m episub_router "$@"; }

chosen="$*"
seeds=${SEEDS:-8}
processes=${PROCESSES:-1}
run event-queue python tests/benchmarks/event_queue.py
run simsub-1 episub sim run simsub-1 --seeds "$seeds" --processes "$processes"
run simsub-2 episub sim run simsub-2 --seeds "$seeds" --processes "$processes"
run simsub-3 episub sim run simsub-3 --seeds "$seeds" --processes "$processes"
run simsub-4 episub sim run simsub-4 --seeds "$seeds" --processes "$processes"
run simsub-5 episub sim run simsub-5 --seeds "$seeds" --processes "$processes"
run simsub-6 episub sim run simsub-6 --seeds "$seeds" --processes "$processes"
run churn episub sim run churn --seeds "$seeds" --processes "$processes"
run join-storm episub sim run join-storm --seeds "$seeds" --processes "$processes"
run nat episub sim run nat --seeds "$seeds" --processes "$processes"
run partition-heal episub sim run partition-heal --seeds "$seeds" --processes "$processes"
run headline-uniform episub sim run headline --variant "uniform, one" --seeds "$seeds" --processes "$processes"
run headline-plane episub sim run headline --variant "plane, one" --seeds "$seeds" --processes "$processes"
run headline-alpha episub sim run headline --variant "alpha" --seeds "$seeds" --processes "$processes"
run headline-five episub sim run headline --variant five --seeds "$seeds" --processes "$processes"
run headline-fifty episub sim run headline --variant fifty --seeds "$seeds" --processes "$processes"
run new-sources episub sim run new-sources --seeds "$seeds" --processes "$processes"
run chat episub sim run chat --seeds "$seeds" --processes "$processes"
run same-moment episub sim run same-moment --seeds "$seeds" --processes "$processes"
run bursts episub sim run bursts --seeds "$seeds" --processes "$processes"
run churn-trees episub sim run churn-trees --seeds "$seeds" --processes "$processes" --phases
run crash episub sim run crash --seeds "$seeds" --processes "$processes" --phases
run lossy-trees episub sim run lossy-trees --seeds "$seeds" --processes "$processes"
run large episub sim run large --seeds "$seeds" --processes "$processes" --phases
run hostile python -P -m tests.benchmarks.hostile --seeds "$seeds"
run proximity episub sim run proximity --seeds "$seeds" --processes "$processes"
run sites episub sim run sites --nodes 400 --seeds "$seeds" --processes "$processes"
run multi-source episub sim run multi-source --seeds 2
run lossy episub sim run lossy
run routers episub sim run routers
run plumtree-redundancy episub sim run plumtree-redundancy
run hyparview-overlay episub sim run hyparview-overlay
for share in 10 20 30 40 50 60 70 80 90 95; do
    run "hyparview-failures-$share" episub sim run hyparview-failures --variant "$share %"
done
run three-sites python -P -m tests.benchmarks.three_sites
run idle python -P -m tests.benchmarks.idle --hosts 20 50
run overload python -P -m tests.benchmarks.overload --hosts 20 --quota 0.5 0.25
run burst python -P -m tests.benchmarks.burst --hosts 20 --messages 10000 --computing-clock
run burst-compared python -P -m tests.benchmarks.burst --hosts 20 --messages 500 --computing-clock \
    --only gossipsub-defaults gossipsub-bounded episub
run scale python tests/benchmarks/sim_scale.py
# The file was made with a kept warm-up (`sim warm`), a variant at a time.
run scale-100k episub sim run scale-100k --phases
run pipeline python -P -m tests.benchmarks.pipeline --events 1000000 10000000 50000000
run stream python -P -m tests.benchmarks.stream --rate 10000 --seconds 600
