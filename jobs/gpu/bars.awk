# Put our figures beside the peer's (a device copy, or PyTorch) as lines
#     bench NAME RATIO target T ours A peer B UNIT
# by the bars of a GPU: G1 products, G2 attention, G3 memory, G4 head, G5
# AdamW, G6 a step of SFT, G7 one of ORPO, G8 the time from the start to the
# first step. Files: ours, then PyTorch's, of lines "measure NAME VALUE UNIT".
# A ratio below its target is marked "short". Losses that differ by more than
# 1 % are a line "differs NAME" and exit 1.
$1 == "measure" {
    if (FILENAME != file) { file = FILENAME; files++ }
    if (files == 1) { ours[$2] = $3; unit[$2] = $4; order[++n] = $2 }
    else peer[$2] = $3
}
function mark(ratio, target) {
    return ratio < target + 0 ? " short" : ""
}
function bar(name, to, what, target) {
    if (to > 0)
        printf "bench %s %.3f target %s ours %.5g peer %.5g %s (%s)%s\n", name,
               ours[name] / to, target, ours[name], to, unit[name], what,
               mark(ours[name] / to, target)
    else
        printf "bench %s - target %s ours %.5g peer - %s (no %s)\n", name,
               target, ours[name], unit[name], what
}
# The same where less is better.
function less(name, to, what, target) {
    if (to > 0 && ours[name] > 0)
        printf "bench %s %.3f target %s ours %.5g peer %.5g %s (%s)%s\n", name,
               to / ours[name], target, ours[name], to, unit[name], what,
               mark(to / ours[name], target)
    else
        bar(name, 0, what, target)
}
function same(name, to,    d) {
    if (to == "")
        return
    d = ours[name] - to
    printf "bench %s %.3f target 1.00 ours %.5g peer %.5g %s (torch)\n",
           name, ours[name] / to, ours[name], to, unit[name]
    if (d * d > 0.0001 * to * to) {
        print "differs " name
        bad = 1
    }
}
END {
    for (i = 1; i <= n; i++) {
        k = order[i]
        if (k ~ /^gemm_/) {
            bar(k, peer[k], "torch", 0.98)
            sum += ours[k]; gemms++
        } else if (k ~ /^attn_both_/)
            bar(k, peer[k], "torch", 1.0)
        else if (k ~ /^(rmsnorm|rope|swiglu|head_stats|head_grad|ce$)/) {
            bar(k, ours["copy"], "copy", "0.80")
            if (k ~ /^(rmsnorm|rope|swiglu|ce)$/)
                bar(k, peer[k], "torch", "1.5")
        } else if (k == "adamw") {
            bar(k, ours["copy"], "copy", 0.85)
            bar(k, peer[k], "torch", 1.0)
        } else if (k == "head") {
            bar(k, peer[k], "torch", 1.0)
            bar(k, gemms > 0 ? sum / gemms : 0, "products", "0.80")
        } else if (k == "head_orpo")
            bar(k, peer[k], "torch", "1.0")
        else if (k == "head_orpo_memory")
            less(k, peer[k], "torch", "4.0")
        else if (k == "step_sft")
            bar(k, peer[k], "torch", 1.15)
        else if (k == "step_sft_mfu")
            bar(k, 0.47, "of the data sheet", "1.0")
        else if (k == "step_orpo")
            bar(k, peer[k], "torch", 1.3)
        else if (k == "step_orpo_memory")
            less(k, peer[k], "torch", "4.0")
        else if (k == "first_step")
            less(k, peer[k], "torch", "2.0")
        else if (k ~ /^step_.*_loss$/)
            same(k, peer[k])
    }
    exit bad
}
