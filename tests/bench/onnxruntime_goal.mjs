// Judges whether a comparison with ONNX Runtime meets the goal. A pure function, tested by tests/bench/test_onnxruntime_goal.mjs.

/// Judges the goal and returns {met, reason}. `names` lists the nets of the goal, `entries` are
/// {net, difference_us, variants: {variant: {level: {ratio}}}}, and `goal` is {ratio, level}. `met` is true if every net was measured at the
/// goal's SIMD level and no ratio exceeds the goal's, and false if a ratio does. `met` is null if nothing can be judged: a net or the level is
/// missing, or ONNX Runtime takes no longer than a call that computes nothing.
export function judge(names, entries, goal) {
  const missed = [];
  for (const name of names) {
    const entry = entries.find(e => e.net === name);
    if (!entry) return {met: null, reason: `${name} was not measured: its model is missing`};
    if (!(entry.difference_us > 0)) return {met: null, reason: `${name}: ONNX Runtime's time is not above that of an empty call`};
    const rows = Object.entries(entry.variants).filter(([, levels]) => levels[goal.level]);
    if (rows.length === 0) return {met: null, reason: `${name} was not measured at ${goal.level}: this processor lacks it, or the program does`};
    for (const [variant, levels] of rows)
      if (!(levels[goal.level].ratio <= goal.ratio)) missed.push(`${name}/${variant} ${levels[goal.level].ratio}`);
  }
  if (names.length === 0) return {met: null, reason: 'the goal names no net'};
  return {met: missed.length === 0, reason: missed.length === 0 ? '' : `above ${goal.ratio}: ${missed.join(', ')}`};
}
