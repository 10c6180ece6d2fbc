// Compares two HTTP servers for LeNet-5: Millrace with three emulated cards, and Node's `http` with onnxruntime-node. The same client sends
// both the same bytes.
//
//   node tests/bench/compare_node_http.mjs [--millrace build/release/bin/millrace] [--seconds 2] [--rounds 5]
//
// The servers of Millrace and Node run all the time on the same processors, and each round measures both of them. In "same-core",
// servers, cards and client share processor 0; in "cross-core", the client uses processor 0, the servers and cards use processor 1.
// Prints JSON with the medians of the rounds' ratios. Exit code 1 if in any row Millrace has a higher p50 or a lower throughput than
// Node; 3 if something is missing.
import {execFileSync} from 'node:child_process';
import {existsSync, mkdtempSync, rmSync} from 'node:fs';
import {cpus, loadavg, tmpdir} from 'node:os';
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import {bench, median, options, serve} from './programs.mjs';

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const given = options({millrace: path.join(root, 'build/release/bin/millrace'), seconds: 2, rounds: 5, connections: '1,8,32'},
  'usage: compare_node_http.mjs [--millrace PROGRAM] [--seconds S] [--rounds N] [--connections 1,8,32]');
const model = path.join(root, 'tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx');
const cluster = path.join(root, 'configs/clusters/three-ku060.yaml');
if (!existsSync(path.join(root, 'tests/node/node_modules/onnxruntime-node'))) {
  console.error('onnxruntime-node is missing: tools/setup');
  process.exit(3);
}

const directory = mkdtempSync(path.join(tmpdir(), 'millrace-bench-'));
const places = [{name: 'same-core', client: '0', server: '0'}];
if (cpus().length > 1) places.push({name: 'cross-core', client: '0', server: '1'});

async function measure(place) {
  const ours = await serve(place.server, given.millrace, ['serve', '--deployment', path.join(directory, 'lenet5'), '--cluster', cluster, '--http', '127.0.0.1:0']);
  const theirs = await serve(place.server, process.execPath, [path.join(root, 'tests/node/serve_model.mjs'), model, 'lenet5']);
  const rows = [];
  try {
    for (const connections of given.connections.split(',').map(Number)) {
      const samples = {millrace: [], node: []};
      for (let round = 0; round < given.rounds; ++round) {
        const turn = [['millrace', ours], ['node', theirs]];
        if (round % 2) turn.reverse();
        for (const [name, server] of turn)
          samples[name].push(await bench(place.client, given.millrace, ['--url', server.url, '--model', 'lenet5', '--concurrency', `${connections}`,
            '--duration', `${given.seconds}`, '--warmup', `${given.seconds / 4}`]));
      }
      const side = (name) => ({
        p50_us: median(samples[name].map((s) => s.latency_us.p50)), p99_us: median(samples[name].map((s) => s.latency_us.p99)),
        requests_per_second: median(samples[name].map((s) => s.requests_per_second)),
      });
      const ratio = (value) => Number(median(samples.millrace.map((s, i) => value(s) / value(samples.node[i]))).toFixed(3));
      rows.push({placement: place.name, connections, millrace: side('millrace'), node: side('node'), ratio: {
        p50: ratio((s) => s.latency_us.p50), p99: ratio((s) => s.latency_us.p99), requests_per_second: ratio((s) => s.requests_per_second)}});
    }
  } finally {
    await ours.stop();
    await theirs.stop();
  }
  return rows;
}

try {
  execFileSync(given.millrace, ['compile', model, '--name', 'lenet5', '--cluster', cluster, '--partitions', '3', '-o', path.join(directory, 'lenet5'), '--quiet']);
  const results = [];
  for (const place of places) results.push(...await measure(place));
  const met = results.every((row) => row.ratio.p50 <= 1 && row.ratio.requests_per_second >= 1);
  console.log(JSON.stringify({benchmark: 'node_http', rounds: given.rounds, seconds: given.seconds, load_average: loadavg(), results,
    goal: {p50: 1, requests_per_second: 1, met}}, null, 1));
  process.exitCode = met ? 0 : 1;
} finally {
  rmSync(directory, {recursive: true});
}
