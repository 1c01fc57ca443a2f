# Compares the out-of-place times of two harnesses: awk -f gpu_like.awk THEIRS OURS
#
# Each line of a file is the number of a turn and a row of nccl-tests' columns. Prints a line per size, lines
# "number NAME VALUE", and a final sentence. The medians of the turns of a size may differ by 1 percent from 1 MiB up, by
# 5 percent below. A size cannot be judged if the turns of either side spread wider (without the fastest and the slowest
# where there are five).
# Exit: 0 alike, 1 a size differs, 5 no size can be judged.

$2 !~ /^[0-9]+$/ || NF < 14 { next }
{
	side = FILENAME == ARGV[1] ? "theirs" : "ours"
	times[side, $2, ++turns[side, $2]] = $7
	if (!($2 in seen)) {
		seen[$2] = 1
		sizes[++n] = $2
	}
}

# Returns the median of the turns of a side, and sets SPREAD to their spread as a share of it.
function median(side, size, i, j, t, count, cut) {
	count = turns[side, size]
	for (i = 2; i <= count; i++)
		for (j = i; j > 1 && times[side, size, j] + 0 < times[side, size, j - 1] + 0; j--) {
			t = times[side, size, j]
			times[side, size, j] = times[side, size, j - 1]
			times[side, size, j - 1] = t
		}
	cut = count >= 5 ? 1 : 0
	t = times[side, size, int((count + 1) / 2)]
	SPREAD = t > 0 ? (times[side, size, count - cut] - times[side, size, 1 + cut]) / t : 1
	return t
}

END {
	for (k = 1; k <= n; k++) {
		size = sizes[k]
		gate = size >= 1048576 ? 0.01 : 0.05
		if (!turns["theirs", size] || !turns["ours", size])
			continue
		p = median("theirs", size)
		spread = SPREAD
		q = median("ours", size)
		spread = SPREAD > spread ? SPREAD : spread
		off = p > 0 ? q / p - 1 : 0
		verdict = spread > gate ? "cannot judge" : (off > gate || off < -gate ? "DIFFERS" : "alike")
		printf "%11d B %10.2f us %10.2f us %+7.2f%% spread %5.2f%%  %s\n", size, p, q, 100 * off, 100 * spread, verdict
		if (verdict == "cannot judge") {
			unjudged = unjudged (unjudged ? ", " : "") size " B (" sprintf("%.1f", 100 * spread) "%)"
			continue
		}
		judged++
		bad += verdict == "DIFFERS"
		class = gate < 0.02 ? "large" : "small"
		most[class] = (off < 0 ? -off : off) > most[class] + 0 ? (off < 0 ? -off : off) : most[class] + 0
	}
	for (class in most)
		printf "number most_percent_%s %.3f\n", class, 100 * most[class]
	if (unjudged)
		unjudged = "; cannot judge " unjudged ", whose turns spread wider than the gate"
	printf "%d of %d sizes differ by more than 1%% from 1 MiB on or 5%% below%s\n", bad, judged, unjudged
	exit bad ? 1 : judged ? 0 : 5
}
