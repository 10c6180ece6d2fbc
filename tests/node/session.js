// Opens a model in ONNX Runtime for comparisons: one thread, and the same bytes on every processor.
'use strict';
const ort = require('onnxruntime-node');

// On processors with AVX2 but without VNNI, ONNX Runtime adds pairs of products in 16 bits, which saturate by default
// with full-range weights. In its precise mode, ONNX Runtime gives the same bytes on every processor. That mode is
// unavailable for QLinearConv with signed weights and signed inputs, whose kernel does not saturate.
async function openSession(model, level) {
  const options = {graphOptimizationLevel: level || 'all', intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 3};
  try {
    return await ort.InferenceSession.create(model, {...options, extra: {session: {x64quantprecision: '1'}}});
  } catch {
    return ort.InferenceSession.create(model, options);
  }
}

module.exports = {ort, openSession};
