// Runs every frame of a float32 .npy (first axis = frames) through a one-input model in ONNX Runtime, batch 1, one thread, and writes the
// model's first output as float32 .npy. If that fails, the exit code is 1 and standard error has one line.
'use strict';
const fs = require('fs');
const ort = require('onnxruntime-node');

function readNpy(path) {
  const bytes = fs.readFileSync(path);
  const headerLength = bytes.readUInt16LE(8);
  const header = bytes.toString('latin1', 10, 10 + headerLength);
  if (!/'descr': '<f4'/.test(header)) throw new Error(`${path}: float32 is needed`);
  const shape = header.match(/'shape': \(([^)]*)\)/)[1].split(',').map((s) => s.trim()).filter((s) => s).map(Number);
  const data = new Float32Array(shape.reduce((a, b) => a * b, 1));
  bytes.copy(Buffer.from(data.buffer), 0, 10 + headerLength);
  return {shape, data};
}

function writeNpy(path, shape, data) {
  let header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${shape.join(', ')},), }`;
  header += ' '.repeat(63 - ((10 + header.length) % 64)) + '\n';
  const start = Buffer.alloc(10);
  start.write('\x93NUMPY\x01\x00', 0, 'latin1');
  start.writeUInt16LE(header.length, 8);
  fs.writeFileSync(path, Buffer.concat([start, Buffer.from(header, 'latin1'), Buffer.from(data.buffer)]));
}

// On processors with AVX2 but without VNNI, ONNX Runtime adds pairs of products in 16 bits, which saturate by default
// with full-range weights. In its precise mode, ONNX Runtime gives the same bytes on every processor. That mode is
// unavailable for QLinearConv with signed weights and signed inputs, whose kernel does not saturate.
async function open(model, level) {
  const options = {graphOptimizationLevel: level || 'all', intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 3};
  try {
    return await ort.InferenceSession.create(model, {...options, extra: {session: {x64quantprecision: '1'}}});
  } catch {
    return ort.InferenceSession.create(model, options);
  }
}

async function main() {
  const [model, input, output, level] = process.argv.slice(2);
  const session = await open(model, level);
  const x = readNpy(input);
  const frames = x.shape[0];
  const each = x.data.length / frames;
  const shape = [1, ...x.shape.slice(1)];
  let all = null;
  let outputShape = null;
  for (let i = 0; i < frames; ++i) {
    const frame = new ort.Tensor('float32', x.data.slice(i * each, (i + 1) * each), shape);
    const y = (await session.run({[session.inputNames[0]]: frame}))[session.outputNames[0]];
    if (all === null) {
      all = new Float32Array(frames * y.data.length);
      outputShape = y.dims.slice(1);
    }
    all.set(y.data, i * y.data.length);
  }
  writeNpy(output, [frames, ...outputShape], all);
}

main().catch((error) => {
  console.error(String(error).split('\n')[0]);
  process.exit(1);
});
