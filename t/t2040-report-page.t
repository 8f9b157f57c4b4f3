#!/bin/sh
# The page of a report as a browser sees it.
test_description='report.html in a headless Chromium, without a network'
. "$BN_SRCDIR/t/tlib.sh"
. "$BN_SRCDIR/t/slurm/lib.sh"
bn_require JQ "no jq" command -v jq
bn_require CHROMIUM "no chromium" command -v chromium
bn_require CHROMIUM "no gnuplot for the pictures" command -v gnuplot
PATH=$PWD/bin:$PATH
BURNISH_TEMPLATES=$BN_SRCDIR/templates
HOME=$PWD/home
export PATH BURNISH_TEMPLATES HOME
mkdir bin home && cp "$BN_BUILDDIR/burnish" bin/ &&
cp "$BN_SRCDIR/t/slurm/rank.sh" bin/burnish-train || exit 1

# Nothing but the file itself can be reached.
browse()
{
    timeout 90 chromium --headless --no-sandbox --disable-gpu \
        --disable-dev-shm-usage --user-data-dir="$HOME/chromium" \
        --host-resolver-rules="MAP * ~NOTFOUND" --enable-logging=stderr \
        --force-color-profile=srgb --hide-scrollbars "$@"
}
# console FILE: what the page said on the browser's console
console() { grep -a "CONSOLE" "$1"; }
# load FILE: its DOM in 'dom', and what was asked of the network in 'net.json'
load()
{
    rm -f net.json
    browse --window-size=1280,1600 --log-net-log="$PWD/net.json" \
        --net-log-capture-mode=IncludeSensitive \
        --dump-dom "file://$PWD/$1" >dom 2>err && test -s net.json
}
# what a page asked for; the browser's own errands go to its maker
asked()
{
    grep -ao '"url":"http[^"]*' net.json | grep -v 'google\|gvt1' | sort -u
}
# probe FILE WIDTH: NAME.probe.html, which looks at itself, as JSON in 'seen'
probe()
{
    {
        sed 's|</body></html>||' "$1"
        cat <<-\END
		<script>addEventListener("load", () => {
		document.querySelectorAll("details").forEach(d => d.open = true);
		const stops = [...document.querySelectorAll("a[href],summary,[tabindex]")];
		const imgs = [...document.images];
		const reach = stops.filter(e => { e.focus(); return document.activeElement === e; });
		const marked = stops.filter(e => { e.focus({focusVisible: true}); return getComputedStyle(e).outlineStyle === "solid" || e.matches(".skip"); });
		document.body.innerHTML = "<pre>" + JSON.stringify({
		rows: document.querySelectorAll("tbody tr").length,
		points: document.querySelectorAll("table caption ~ tbody tr").length,
		images: imgs.length, drawn: imgs.filter(i => i.complete && i.naturalWidth > 0).length,
		alt: imgs.filter(i => i.alt.length > 10).length,
		stops: stops.length, reach: reach.length, marked: marked.length,
		named: stops.filter(e => (e.getAttribute("aria-label") || e.textContent).trim()).length,
		headings: [...document.querySelectorAll("h1,h2,h3")].map(h => h.tagName).join(" "),
		lang: document.documentElement.lang, title: document.title,
		over: document.documentElement.scrollWidth - innerWidth, width: innerWidth,
		letter: Math.round(imgs[0] ? imgs[0].clientWidth * 15 / 760 : 0)}) + "</pre>";
		})</script></body></html>
		END
    } >probe.html
    browse --window-size="$2,1600" --dump-dom "file://$PWD/probe.html" >dom 2>probe.err &&
    sed -n 's|.*<pre>\(.*\)</pre>.*|\1|p' dom >seen && cat seen >&2 && test -s seen
}

{ printf '%s\n' "output_dir: out" "launch: local" "tokenize: no"; bn_base
  echo "list: [{name: ok-a, beta: 0.1}, {name: ok-b, beta: 0.5}, {name: ok-c, max_length: 100, max_prompt_length: 50}, {name: bad}]"; } >s.yaml
# metrics NAME FACTOR
metrics()
{
    seq 10 10 200 | awk -v f="$2" '{
        x = f * exp(-$1 / 100)
        printf "{\"step\":%d,\"epoch\":1,\"time\":1.5,\"kind\":\"train\",\"loss\":%g,\"learning_rate\":1e-5,\"grad_norm\":%g,\"tokens_per_second\":100}\n", $1, x, 1 + x
        if ($1 % 50 == 0) printf "{\"step\":%d,\"epoch\":1,\"time\":1.5,\"kind\":\"eval\",\"eval_loss\":%g,\"eval_nll_loss\":%g,\"eval_log_odds_chosen\":%g,\"eval_rewards/accuracies\":0.7,\"eval_rewards/margins\":0.1}\n", $1, x, x, 1 - x / 9
    }' >"out/$1/metrics.jsonl"
}

# answers NAME MATCH: figures of what it answered
answers()
{
    awk -v m="$2" 'BEGIN {
        printf "{\"step\":200,\"epoch\":1,\"time\":1.5,\"kind\":\"eval\",\"eval_gen_examples\":50"
        n = split("length eos_rate repetition_4 distinct_1 distinct_2 exact_match", key, " ")
        for (i = 1; i <= n; i++) {
            x = i == 1 ? 41.26 : m / i
            printf ",\"eval_gen_%s\":%g,\"eval_gen_%s_low\":%g,\"eval_gen_%s_high\":%g", key[i], x, key[i], x * 0.9, key[i], x * 1.1
        }
        print "}"
    }' >>"out/$1/metrics.jsonl"
}

test_expect_success 'a page is made' '
    test_expect_code 65 burnish sweep submit s.yaml &&
    metrics ok-a 3 && metrics ok-b 2 && metrics ok-c 1 &&
    answers ok-a 0.8125 && answers ok-b 0.25 &&
    burnish sweep report s.yaml && test -s out/report.html
'

test_expect_success 'the checks see a page that is bad' '
    printf "<html><body><img src=\"http://127.0.0.1:9/x.png\"><a href=x></a><script>console.error(\"planted\")</script></body></html>" >bad.html &&
    probe bad.html 1280 && console probe.err | grep planted &&
    load bad.html && asked | grep 127.0.0.1:9/x.png &&
    jq -e ".drawn == 0 and .images == 1 and .named == 0 and .points == 0" seen
'

test_expect_success 'no word on the console, and nothing asked of the network' '
    load out/report.html && ! console err &&
    grep -c "data:image/svg" dom && grep "<table>" dom &&
    asked >urls && test_must_be_empty urls
'

test_expect_success 'table, pictures and keys at the width of a desk' '
    probe out/report.html 1280 &&
    jq -e ".points == 6 and .images == 18 and .drawn == 18 and .alt == 18" seen &&
    jq -e ".stops > 20 and .reach == .stops and .named == .stops and .marked == .stops" seen &&
    jq -e ".over <= 0 and .lang == \"en\" and (.title | test(\"Sweep\")) and (.headings | test(\"^H1 H2 H3\"))" seen &&
    ! console probe.err
'

test_expect_success 'nothing hangs over at the width of a hand, and words can be read' '
    probe out/report.html 500 &&
    jq -e ".width <= 500 and .over <= 0 and .drawn == 18 and .letter >= 10" seen
'

test_expect_success 'what is drawn is not blank' '
    for width in 1280 500; do
        browse --window-size=$width,1600 --screenshot="$PWD/page.png" "file://$PWD/out/report.html" 2>err &&
        browse --window-size=$width,1600 --screenshot="$PWD/blank.png" "data:text/html," 2>err &&
        test $(wc -c <page.png) -gt $(($(wc -c <blank.png) * 8)) || return 1
    done
'

test_done
