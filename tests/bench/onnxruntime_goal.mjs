// Whether a comparison with ONNX Runtime says that the goal is met. Pure; tests/bench/test_onnxruntime_goal.mjs.

/// `names`: the nets the goal is about. `entries`: {net, difference_us, variants: {variant: {level: {ratio}}}}. `goal`: {ratio, level}.
/// {met, reason}: true where every net was measured at the level and every ratio holds, false where one does not, null where nothing
/// can be said: a net or the level is missing, or ONNX Runtime's time is not above that of a call that computes nothing.
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
