// Runs every frame of a float32 .npy (first axis = frames) through a one-input model in ONNX Runtime, batch 1, one thread, and writes the
// model's first output as float32 .npy. If that fails, the exit code is 1 and standard error has one line.
'use strict';
const {readNpy, writeNpy} = require('./npy.js');
const {ort, openSession} = require('./session.js');

async function main() {
  const [model, input, output, level] = process.argv.slice(2);
  const session = await openSession(model, level);
  const x = readNpy(input);
  if (x.type !== 'float32') throw new Error(`${input}: float32 is needed`);
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
  writeNpy(output, 'float32', [frames, ...outputShape], all);
}

main().catch((error) => {
  console.error(String(error).split('\n')[0]);
  process.exit(1);
});
