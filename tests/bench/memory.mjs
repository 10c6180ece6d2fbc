// Checks that memory does not grow over a million HTTP requests to a server with LeNet-5 on three emulated cards.
//
//   node tests/bench/memory.mjs [--millrace PROGRAM] [--requests 1000000] [--connections 8]
//
// The requests are sent in twenty equal parts. Prints JSON: resident memory and descriptors of the server and of its cards after each part.
// The first part warms up. Exit code 1 if memory grows by more than 2 % after the second part, or if a descriptor leaks.
import {execFileSync} from 'node:child_process';
import {mkdtempSync, readdirSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import {bench, options, serve} from './programs.mjs';

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const given = options({millrace: path.join(root, 'build/release/bin/millrace'), requests: 1000000, connections: 8},
  'usage: memory.mjs [--millrace PROGRAM] [--requests N] [--connections N]');
const cluster = path.join(root, 'configs/clusters/three-ku060.yaml');
const kParts = 20, kAll = '0-63';

const status = (pid) => readFileSync(`/proc/${pid}/status`, 'utf8');
const rss = (pid) => Number(status(pid).match(/^VmRSS:\s+(\d+)/m)[1]) * 1024;
const descriptors = (pid) => readdirSync(`/proc/${pid}/fd`).length;
const children = (pid) => readdirSync(`/proc/${pid}/task`).flatMap((task) => readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number));

async function completed(url) {
  const {models: [model]} = await (await fetch(`${url}/v2/millrace/status`)).json();
  return model.completed;
}

const directory = mkdtempSync(path.join(tmpdir(), 'millrace-memory-'));
let server = null;
try {
  const deployment = path.join(directory, 'lenet5');
  execFileSync(given.millrace, ['compile', path.join(root, 'tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx'), '--name', 'lenet5', '--cluster', cluster, '--partitions', '3', '-o', deployment, '--quiet']);
  server = await serve(kAll, given.millrace, ['serve', '--deployment', deployment, '--cluster', cluster, '--http', '127.0.0.1:0']);
  const parts = [];
  for (let i = 1; i <= kParts; ++i) {
    const wanted = given.requests * i / kParts;
    for (let done = await completed(server.url); done < wanted; done = await completed(server.url))
      await bench(kAll, given.millrace, ['--url', server.url, '--model', 'lenet5', '--concurrency', `${given.connections}`, '--duration', '1', '--warmup', '0']);
    const pids = [server.pid, ...children(server.pid)];
    parts.push({requests: await completed(server.url), server_bytes: rss(server.pid), cards_bytes: pids.slice(1).map(rss), descriptors: descriptors(server.pid)});
    console.error(`${parts.at(-1).requests} requests: ${(parts.at(-1).server_bytes / 1048576).toFixed(2)} MiB`);
  }
  const [first, last] = [parts[1], parts.at(-1)];
  const growth = last.server_bytes / first.server_bytes - 1;
  const cards = last.cards_bytes.map((bytes, i) => bytes / first.cards_bytes[i] - 1);
  const met = growth <= 0.02 && cards.every((g) => g <= 0.02) && last.descriptors <= first.descriptors;
  console.log(JSON.stringify({benchmark: 'memory', parts, growth, cards_growth: cards, goal: {growth: 0.02, met}}, null, 1));
  process.exitCode = met ? 0 : 1;
} finally {
  await server?.stop();
  rmSync(directory, {recursive: true});
}
