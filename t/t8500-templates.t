#!/bin/sh
# The real trainer on CPUs, whatever a job asks for: GPUs are null devices, and
# stand-ins for a container, environment modules and MPS's control program
# record how they were called.
test_description='every batch template runs, with what it sets'
. "$BN_SRCDIR/t/tlib.sh"
. "$BN_SRCDIR/t/slurm/lib.sh"
. "$BN_SRCDIR/t/mpi.sh"
bn_mpi
bn_cluster
bn_sweep_bin real
bn_mpi_two_nodes
unset OMP_NUM_THREADS
BURNISH_CACHE=$PWD/cache
export BURNISH_CACHE
bn_prereq PYTHON 'no python3' command -v python3

# apptainer exec IMAGE COMMAND...: a line a rank into $SEEN, then the command
mkdir standins && cat >standins/apptainer <<'END' && chmod +x standins/apptainer
#!/bin/sh
test "$1 $2" = "exec a b.sif" || exit 9
echo "rank $PMIX_RANK of $SLURM_NTASKS on $SLURMD_NODENAME gpus ${CUDA_VISIBLE_DEVICES:-none}" \
    "threads $OMP_NUM_THREADS ib ${NCCL_IB_DISABLE:-unset} core $(ulimit -c)" \
    "mps ${CUDA_MPS_PIPE_DIRECTORY:-none}" >>"$SEEN"
shift 2
exec "$@"
END
cat >standins/nvidia-cuda-mps-control <<'END' && chmod +x standins/nvidia-cuda-mps-control
#!/bin/sh
pipe=$CUDA_MPS_PIPE_DIRECTORY
if test "$1" = -d; then
    echo "start $pipe" >>"$MPS" && : >"$pipe/control"
    exit
fi
read -r line
echo "$line $pipe" >>"$MPS"
test -e "$pipe/control" || exit 1
test "$line" != quit || rm "$pipe/control"
END
# as environment modules come into the shells of jobs
cat >modules.sh <<'END'
module()
{
    echo "$# $*" >>"$MODULES"
    test "$2" != absent || { echo "ERROR: no module absent" >&2; return 1; }
}
END
PATH=$PWD/standins:$PATH SEEN=$PWD/seen MPS=$PWD/mps MODULES=$PWD/loaded
BASH_ENV=$PWD/modules.sh
export PATH SEEN MPS MODULES BASH_ENV

# sweep NAME LAUNCH POINTS KEY...: a sweep file NAME.yaml of so many points
sweep()
{
    sw_name=$1 sw_points=$3
    {
        printf '%s\n' "output_dir: $1" "launch: $2" "time: 10" \
            "container: [apptainer, exec, a b.sif]" "tokenize: now"
        shift 3
        printf '%s\n' "$@"
        bn_base | sed 's/max_steps: 10/max_steps: 3/'
        printf '%s\n' "  device: cpu" "  eval_split: 0.2" \
            "  eval_strategy: steps" "  eval_steps: 3" "list:"
        for sw_i in $(seq "$sw_points"); do
            echo "  - {name: p$sw_i, beta: 0.$sw_i}"
        done
    } >"$sw_name.yaml"
}
all_done()
{
    test "$(burnish sweep status --json "$1.yaml" |
        jq -r '[.points[].state] | unique | join(" ")')" = "done"
}
# run NAME: to its end; $SEEN, sorted, is then in the file ranks
run()
{
    : >seen && burnish sweep submit "$1.yaml" &&
    { bn_wait 120 all_done "$1" || { cat "$1"/*/slurm*.out "$1"/logs/*.out; false; }; } >&2 &&
    sort seen >ranks && cat ranks >&2
}
rank() { echo "rank $1 on $2 gpus $3 threads $4 ib $5 core $6 mps ${7:-none}"; }

test_expect_success 'single: a rank a GPU of one node' '
    sweep single jobs 1 "gpus_per_node: 2" "cpus_per_task: 2" && run single &&
    { rank "0 of 2" n1 0,1 2 1 0 && rank "1 of 2" n1 0,1 2 1 0; } >want &&
    test_cmp want ranks &&
    grep "^#SBATCH --gpus-per-node=2" single/p1/job.sbatch &&
    test -s single/p1/model/model.safetensors
'

test_expect_success 'multi: the ranks of two nodes' '
    sweep multi jobs 1 "gpus_per_node: 2" "nodes: 2" "exclusive: true" "core: unlimited" && run multi &&
    { rank "0 of 4" n1 0,1 1 unset unlimited && rank "1 of 4" n1 0,1 1 unset unlimited &&
      rank "2 of 4" n2 0,1 1 unset unlimited && rank "3 of 4" n2 0,1 1 unset unlimited; } >want &&
    test_cmp want ranks &&
    test -e multi/p1/phase.3 && test -s multi/p1/model/model.safetensors &&
    grep "core files: up to .unlimited. blocks as" multi/p1/slurm-*.out
'

test_expect_success 'cpu: no GPU is asked for or seen' '
    sweep cpu jobs 2 "tasks_per_node: 2" "cpus_per_task: 2" \
        "environment: {NCCL_IB_DISABLE: \"0\"}" && run cpu &&
    rank "0 of 2" n1 none 2 0 0 >want && rank "0 of 2" n1 none 2 0 0 >>want &&
    rank "1 of 2" n1 none 2 0 0 >>want && rank "1 of 2" n1 none 2 0 0 >>want &&
    sed "s/n2/n1/" ranks >got && test_cmp want got && ! grep gpus cpu/p1/job.sbatch
'

test_expect_success 'array: a task a point, each with its own run' '
    sweep array array 3 "gpus_per_node: 1" "limit: 2" && run array &&
    rank "0 of 1" n1 0 1 1 0 >one && cat one one one >want &&
    sed "s/gpus 1/gpus 0/; s/n2/n1/" ranks >got && test_cmp want got &&
    for i in 1 2 3; do
        id=$(burnish sweep status --json array.yaml | jq -r ".points[$((i - 1))].job") &&
        grep "start of .*/array/p$i " "array/logs/$id.out" || return 1
    done
'

test_expect_success 'sequential: the points in turn in one job' '
    sweep seq sequential 2 "tasks_per_node: 2" && run seq &&
    test $(wc -l <ranks) = 4 &&
    burnish sweep status --json seq.yaml | jq -e "[.points[].job] | unique | length == 1" &&
    end=$(sed -n "s/^end \([0-9]*\).*/\1/p" seq/p1/history) &&
    start=$(sed -n "s/^start \([0-9]*\).*/\1/p" seq/p2/history) && test $start -ge $end
'

test_expect_success 'mps: a daemon for the job, and it is gone afterwards' '
    TMPDIR=$bn_dir/t && export TMPDIR && mkdir "$TMPDIR" &&
    sweep shared jobs 1 "gpus_per_node: 1" "tasks_per_node: 4" "template: mps" && run shared &&
    tmp=$TMPDIR && unset TMPDIR && cat mps >&2 &&
    id=$(burnish sweep status --json shared.yaml | jq -r ".points[0].job") &&
    pipe=$tmp/burnish-mps-$(id -u)-$id/pipe &&
    for i in 0 1 2 3; do rank "$i of 4" n1 0 1 1 0 "$pipe" || return 1; done >want &&
    test_cmp want ranks &&
    head -n 1 mps >first && echo "start $pipe" >want && test_cmp want first &&
    tail -n 1 mps >last && echo "quit $pipe" >want && test_cmp want last &&
    ! test -e "${pipe%/pipe}" && ! test -e shared/p1/exit-class
'

test_expect_success 'a template of one'\''s own, by its path' '
    sed "s/^bn_main/echo mine\n&/" "$BURNISH_TEMPLATES/cpu.sbatch.in" >own.sbatch.in &&
    sweep own jobs 1 "template: $PWD/own.sbatch.in" && run own &&
    grep -x mine own/p1/slurm-*.out
'

test_expect_success 'modules are loaded, each a word; one that is absent ends the job' '
    sweep mods jobs 1 "modules: [cuda/13.0, \"open mpi;4\"]" && run mods &&
    printf "%s\n" "2 load cuda/13.0" "2 load open mpi;4" >want && test_cmp want loaded &&
    sweep none jobs 1 "modules: [absent, never]" &&
    burnish sweep submit none.yaml &&
    lost() { burnish sweep status none.yaml >out && grep -q "^p1 *lost" out; } &&
    bn_wait 60 lost && cat out >&2 && grep "p1: .*no module absent" out &&
    ! grep never loaded
'

test_expect_success PYTHON 'status --watch draws anew until nothing runs' '
    sweep watched array 3 "limit: 1" && burnish sweep submit watched.yaml &&
    cat >script <<-\END &&
	want \x1b[H\x1b[2J
	want POINT
	want 3 points:
	want \x1b[H\x1b[2J
	want 3 points: 3 done
	end
	END
    python3 "$BN_SRCDIR/t/talk.py" 120 burnish sweep status --watch watched.yaml <script >screen &&
    sweep logged array 2 "limit: 1" && burnish sweep submit logged.yaml &&
    timeout 120 burnish sweep status --watch logged.yaml >plain && cat plain >&2 &&
    sed -n "s/^2 points: //p" plain >states && test "$(tail -n 1 states)" = "2 done" &&
    uniq states | test_cmp states - &&
    burnish sweep status --watch watched.yaml >plain && ! grep "$(printf "\033")" plain &&
    test $(grep -c "^POINT" plain) = 1
'

test_expect_success PYTHON 'status --watch ends when it is told to, and leaves the jobs alone' '
    sweep later jobs 1 "sbatch: [--begin=now+1hour]" && burnish sweep submit later.yaml &&
    printf "%s\n" "want 1 points: 1 pending" "send \\x03" end >script &&
    python3 "$BN_SRCDIR/t/talk.py" 20 burnish sweep status --watch later.yaml <script &&
    id=$(burnish sweep status --json later.yaml | jq -r ".points[0].job") &&
    bn_job_is $id PENDING && burnish sweep cancel later.yaml
'

test_expect_success 'launch local with several ranks, through mpirun' '
    sweep local local 2 "tasks_per_node: 2" \
        "environment: {OMPI_ALLOW_RUN_AS_ROOT: \"1\", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: \"1\", OMPI_MCA_rmaps_base_oversubscribe: \"1\", OMPI_MCA_hwloc_base_binding_policy: none, OMP_NUM_THREADS: \"1\"}" &&
    : >seen && burnish sweep submit local.yaml &&
    test $(wc -l <seen) = 4 && all_done local &&
    test -e local/p1/phase.1 && grep "\"size\":2" local/p1/phase.0 &&
    burnish sweep report local.yaml >out && grep "^   1  p" out
'

test_done
