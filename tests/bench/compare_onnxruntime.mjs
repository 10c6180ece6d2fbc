// Compares kernels/fast with ONNX Runtime in one run: one thread each, batch 1. Prints JSON.
//
//   node tests/bench/compare_onnxruntime.mjs --bench build/release/tests/bench_kernels --models DIR [--rounds 8] [--all]
//
// ONNX Runtime runs each net's float32 model with all graph optimisations on one thread; its time is the best of many loops. A call from
// JavaScript takes time even if nothing is computed. That time is measured with a model of one Identity on the same input, printed, and
// subtracted. kernels/fast runs the quantised variants from float32 to float32; its time is the best repetition. Each of `rounds` rounds
// measures both, so that both meet the same machine load. Exit code 1 if, with AVX-512 VNNI, a net of the goal has a ratio above 0.5. Exit
// code 2 for wrong usage. Exit code 3 if something is missing or the goal cannot be judged: no AVX-512 VNNI, a missing net, or no positive
// difference. goal.met is then null.
import {execFileSync} from 'node:child_process';
import {createRequire} from 'node:module';
import {existsSync} from 'node:fs';
import {cpus, loadavg} from 'node:os';
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import {judge} from './onnxruntime_goal.mjs';

const NETS = [
  {name: 'lenet5', file: 'lenet5_mnist/lenet5_float.onnx', shape: [1, 1, 28, 28], goal: true},
  {name: 'ptt', file: 'pttdnn_cifar10/ptt_float.onnx', shape: [1, 3, 32, 32], goal: true},
  {name: 'mpcnn', file: 'mpcnn_gestures/mpcnn_float.onnx', shape: [1, 1, 32, 32], goal: true},
  {name: 'tfc', file: 'tfc_mnist/tfc_float.onnx', shape: [1, 784]},
  {name: 'resnet8', file: 'resnet8_cifar10/resnet8_float.onnx', shape: [1, 3, 32, 32]},
  {name: 'kws', file: 'kws_dscnn/kws_float.onnx', shape: [1, 1, 49, 10]},
  {name: 'vww', file: 'vww_mobilenetv1_025/vww_float.onnx', shape: [1, 3, 96, 96]},
];
const GOAL = 0.5;
const LOOP_MS = 25;

function usage(message) {
  console.error(`${message}\nusage: compare_onnxruntime.mjs --bench PROGRAM --models DIR [--rounds N] [--all]`);
  process.exit(2);
}

function options(argv) {
  const given = {rounds: 8, all: false, models: process.env.MILLRACE_MODELS};
  for (let i = 0; i < argv.length; ++i) {
    const key = argv[i].replace(/^--/, '');
    if (key === 'all') given.all = true;
    else if (['bench', 'models', 'rounds'].includes(key) && i + 1 < argv.length) given[key] = argv[++i];
    else usage(`unknown option ${argv[i]}`);
  }
  given.rounds = Number(given.rounds);
  if (!given.bench || !given.models || !(given.rounds >= 1)) usage('--bench and --models are needed');
  return given;
}

function onnxruntime() {
  const folder = path.join(path.dirname(fileURLToPath(import.meta.url)), '../node/');
  try {
    return createRequire(folder)('onnxruntime-node');
  } catch {
    console.error(`onnxruntime-node is missing: run 'npm ci --ignore-scripts' in ${path.normalize(folder)}`);
    process.exit(3);
  }
}

// Encode an ONNX model with one Identity in protobuf's wire format, with only the fields that it needs.
const varint = n => (n < 128 ? [n] : [(n & 127) | 128, ...varint(Math.floor(n / 128))]);
const integer = (field, n) => [field << 3, ...varint(n)];
const message = (field, bytes) => [(field << 3) | 2, ...varint(bytes.length), ...bytes];
const text = (field, s) => message(field, [...Buffer.from(s)]);
function identityModel(shape) {
  const dims = shape.flatMap(n => message(1, integer(1, n)));
  const value = name => [...text(1, name), ...message(2, message(1, [...integer(1, 1), ...message(2, dims)]))];
  const node = [...text(1, 'x'), ...text(2, 'y'), ...text(4, 'Identity')];
  const graph = [...message(1, node), ...text(2, 'identity'), ...message(11, value('x')), ...message(12, value('y'))];
  return Uint8Array.from([...integer(1, 8), ...message(7, graph), ...message(8, integer(2, 13))]);
}

async function open(ort, model, shape) {
  const session = await ort.InferenceSession.create(
    model, {intraOpNumThreads: 1, interOpNumThreads: 1, executionMode: 'sequential', graphOptimizationLevel: 'all'});
  const count = shape.reduce((a, b) => a * b, 1);
  const tensor = new ort.Tensor('float32', Float32Array.from({length: count}, (_, i) => ((i * 7919) % 256) / 255), shape);
  const feeds = {[session.inputNames[0]]: tensor};
  for (let i = 0; i < 50; ++i) await session.run(feeds);
  return {session, feeds, best: Infinity};
}

async function loops(entry, milliseconds) {
  const end = performance.now() + milliseconds;
  let runs = 8;
  while (performance.now() < end) {
    const start = process.hrtime.bigint();
    for (let i = 0; i < runs; ++i) await entry.session.run(entry.feeds);
    const elapsed = Number(process.hrtime.bigint() - start) / 1e3;
    entry.best = Math.min(entry.best, elapsed / runs);
    runs = Math.max(8, Math.ceil(1000 * runs / elapsed));  // one loop takes about a millisecond, as in kernels/fast; a shorter loop could profit from a quiet moment
  }
}

function fast(given, nets, best) {
  const filter = `^(${nets.map(net => net.name).join('|')})/`;
  const out = execFileSync(given.bench, ['--benchmark_format=json', '--benchmark_min_time=0.001', '--benchmark_repetitions=40',
    '--benchmark_enable_random_interleaving=true', `--benchmark_filter=${filter}`],
    {env: {...process.env, MILLRACE_MODELS: given.models}, maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'ignore']});
  for (const run of JSON.parse(out).benchmarks) {
    if (run.run_type !== 'iteration') continue;
    best.set(run.run_name, Math.min(best.get(run.run_name) ?? Infinity, run.real_time));
  }
}

const rounded = x => Number(x.toFixed(2));

const given = options(process.argv.slice(2));
const ort = onnxruntime();
const nets = NETS.filter(net => (given.all || net.goal || net.name === 'tfc') && existsSync(path.join(given.models, net.file)));
if (nets.length === 0 || !existsSync(given.bench)) {
  console.error(`no models in ${given.models}, or no program ${given.bench} (build with -DMILLRACE_BENCH=ON)`);
  process.exit(3);
}
for (const net of nets) {
  net.model = await open(ort, path.join(given.models, net.file), net.shape);
  net.identity = await open(ort, identityModel(net.shape), net.shape);
}
const best = new Map();
for (let round = 0; round < given.rounds; ++round) {
  console.error(`round ${round + 1} of ${given.rounds}, load ${loadavg()[0].toFixed(1)}`);
  for (const net of nets) {
    for (let i = 0; i < 4; ++i) {
      await loops(net.model, LOOP_MS);
      await loops(net.identity, LOOP_MS);
    }
  }
  fast(given, nets, best);
}

const report = {
  schema: 1,
  conditions: {cpu: cpus()[0].model, cpus: cpus().length, load: loadavg().map(rounded), rounds: given.rounds, threads: 1, batch: 1,
    onnxruntime: ort.env.versions.node ?? ort.env.versions.common, time: 'best loop, microseconds a frame'},
  goal: {ratio: GOAL, level: 'avx512vnni', met: null},
  nets: [],
};
for (const net of nets) {
  const floor = net.identity.best;
  const entry = {net: net.name, onnxruntime_us: rounded(net.model.best), identity_us: rounded(floor), difference_us: rounded(net.model.best - floor), variants: {}};
  for (const [name, time] of best) {
    const [of, variant, level] = name.split('/');
    if (of !== net.name) continue;
    const ratio = time / (net.model.best - floor);
    (entry.variants[variant] ??= {})[level] = {us: rounded(time), ratio: Number(ratio.toFixed(3))};
  }
  report.nets.push(entry);
}
Object.assign(report.goal, judge(NETS.filter(net => net.goal).map(net => net.name), report.nets, report.goal));
console.log(JSON.stringify(report, null, 2));
if (report.goal.reason) console.error(report.goal.reason);
process.exit(report.goal.met === null ? 3 : report.goal.met ? 0 : 1);
