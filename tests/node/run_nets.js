// Runs every net of a folder with ONNX Runtime: run_nets.js DIRECTORY. A net is NAME.onnx with one NAME.INPUT.npy for
// each input, whose first axis counts frames. For each output, the script writes NAME.OUTPUT.npy, frames first. If a net
// cannot be run, the script names it with the reason on standard error, goes on with the next net, and ends with exit code 1.
'use strict';
const fs = require('fs');
const path = require('path');
const {readNpy, writeNpy} = require('./npy.js');
const {ort, openSession} = require('./session.js');

// ONNX Runtime's fusions make an invalid model of some valid nets, such as an AveragePool with dilations between
// quantisers. Such a net runs without fusions.
async function openWithOrWithoutFusions(model) {
  try {
    return await openSession(model);
  } catch {
    return openSession(model, 'disabled');
  }
}

async function runNet(stem) {
  const session = await openWithOrWithoutFusions(`${stem}.onnx`);
  const inputs = session.inputNames.map((name) => [name, readNpy(`${stem}.${name}.npy`)]);
  const frames = inputs[0][1].shape[0];
  const results = {};
  for (let i = 0; i < frames; ++i) {
    const feeds = {};
    for (const [name, {type, shape, data}] of inputs) {
      const each = data.length / frames;
      feeds[name] = new ort.Tensor(type, data.slice(i * each, (i + 1) * each), [1, ...shape.slice(1)]);
    }
    const outputs = await session.run(feeds);
    for (const name of session.outputNames) (results[name] ??= []).push(outputs[name]);
  }
  for (const [name, tensors] of Object.entries(results)) {
    const all = new tensors[0].data.constructor(frames * tensors[0].data.length);
    tensors.forEach((tensor, i) => all.set(tensor.data, i * tensor.data.length));
    writeNpy(`${stem}.${name}.npy`, tensors[0].type, [frames, ...tensors[0].dims], all);
  }
}

async function main() {
  const directory = process.argv[2];
  for (const file of fs.readdirSync(directory).filter((name) => name.endsWith('.onnx')).sort()) {
    const name = file.slice(0, -'.onnx'.length);
    try {
      await runNet(path.join(directory, name));
    } catch (error) {
      console.error(`${name}: ${String(error).split('\n')[0]}`);
      process.exitCode = 1;
    }
  }
}

main();
